package config

// LoadCheck returns the configuration that `berth check` looks at: that of Load,
// except that lock, broker and command may be missing (Lock.Name, Brokers and
// Command are empty then) and that timings may be unsafe. Its errors are those
// of Load otherwise.
func LoadCheck(in Input) (Run, error) {
	s, err := in.settle(table)
	if err != nil {
		return Run{}, err
	}
	return s.Run, nil
}
