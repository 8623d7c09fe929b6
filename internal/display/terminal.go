package display

import (
	"bytes"
	"os"

	"golang.org/x/sys/unix"
)

// What a terminal does on these is the same everywhere (ECMA-48, and xterm for the second screen).
const (
	enter   = "\x1b[?1049h\x1b[?25l" // the second screen, without a cursor
	leave   = "\x1b[?25h\x1b[?1049l" // what was there before
	home    = "\x1b[H"
	toRight = "\x1b[K" // clear the rest of the line
	below   = "\x1b[J" // clear the rest of the screen
)

// Terminal is what a screen is drawn on. OpenTerminal makes it.
type Terminal struct {
	file  *os.File
	shown []byte // what was drawn last, nil: nothing
}

// OpenTerminal returns the terminal that a file is, nil if it is none.
func OpenTerminal(file *os.File) *Terminal {
	if _, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS); err != nil {
		return nil
	}
	return &Terminal{file: file}
}

// size returns how many columns and lines there are.
func (t *Terminal) size() (width, height int) {
	size, err := unix.IoctlGetWinsize(int(t.file.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return 80, 24
	}
	return int(size.Col), int(size.Row)
}

// draw replaces what is shown in one write, so that nothing flickers.
func (t *Terminal) draw(v View) error {
	var b bytes.Buffer
	b.WriteString(home)
	for i, line := range v.Screen(t.size()) {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + toRight)
	}
	b.WriteString(below)
	if bytes.Equal(b.Bytes(), t.shown) {
		return nil
	}
	t.shown = b.Bytes()
	_, err := t.file.Write(t.shown)
	return err
}

// say writes what is no part of a picture.
func (t *Terminal) say(text string) error {
	t.shown = nil
	_, err := t.file.WriteString(text)
	return err
}
