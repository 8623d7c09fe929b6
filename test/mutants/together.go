package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// One program has many mutants: each in a copy of the function that it changes, which the function itself calls in its
// place when the environment asks for that mutant. Building is what costs time.

// variable is where a test finds the number of the mutant that it tries.
const variable = "BERTH_TEST_MUTANT"

// beside is what mutants of a package call.
const beside = `package %s

import (
	"os"
	"strconv"
)

var triedMutant = func() int {
	n, err := strconv.Atoi(os.Getenv("` + variable + `"))
	if err != nil {
		return -1
	}
	return n
}()

func ` + zero + `[T any](T) (z T) { return }
`

// unit is what a mutant has a copy of: a function, or the value of a variable.
type unit struct {
	from, to int // the bytes of its body, or of the value

	before, name, after string // the copy, up to the body
	of, with            string // what is written before and behind the name to call the copy
	returns             bool   // something
	value               bool
}

// copied returns the unit of a function, nil if nothing can call a copy of it.
func (m *mutator) copied(d *ast.FuncDecl) *unit {
	at := func(n ast.Node) int { return m.file.Offset(n.Pos()) }
	u := &unit{
		from: at(d.Body), to: m.file.Offset(d.Body.End()), name: d.Name.Name, returns: d.Type.Results.NumFields() > 0,
		before: string(m.source[at(d):at(d.Name)]),
		after:  string(m.source[m.file.Offset(d.Name.End()):at(d.Body)]),
	}
	if d.Recv != nil {
		if len(d.Recv.List[0].Names) == 0 || d.Recv.List[0].Names[0].Name == "_" {
			return nil
		}
		u.of = d.Recv.List[0].Names[0].Name + "."
	} else if u.name == "init" || u.name == "main" {
		return nil
	}
	var args, types []string
	for _, param := range d.Type.Params.List {
		if len(param.Names) == 0 {
			return nil
		}
		for _, name := range param.Names {
			if name.Name == "_" {
				return nil
			}
			arg := name.Name
			if _, variadic := param.Type.(*ast.Ellipsis); variadic {
				arg += "..."
			}
			args = append(args, arg)
		}
	}
	if d.Type.TypeParams != nil {
		for _, param := range d.Type.TypeParams.List {
			for _, name := range param.Names {
				types = append(types, name.Name)
			}
		}
		u.with = "[" + strings.Join(types, ", ") + "]"
	}
	u.with += "(" + strings.Join(args, ", ") + ")"
	return u
}

// copiedValue returns the unit of a variable's value.
func (m *mutator) copiedValue(name string, value *ast.CompositeLit) *unit {
	if array, ok := value.Type.(*ast.ArrayType); ok && array.Len != nil {
		return nil // which may be counted
	}
	return &unit{
		from: m.file.Offset(value.Pos()), to: m.file.Offset(value.End()), name: name, returns: true, value: true,
		before: "func ", after: "() " + m.text(value.Type) + " ", with: "()",
	}
}

// copyName is what the copy with a mutant is called.
func (u *unit) copyName(n int) string { return fmt.Sprintf("%s_mutant%d", u.name, n) }

// copy returns the unit with a mutant.
func (u *unit) copy(n int, m Mutant, source []byte) string {
	body := string(source[u.from:m.from]) + m.text + string(source[m.to:u.to])
	if u.value {
		body = "{ return " + body + " }"
	}
	// The compiler names the mutant in place of the file.
	return fmt.Sprintf("\n//line mutant%d.go:1\n%s%s%s%s\n", n, u.before, u.copyName(n), u.after, body)
}

// choice returns what calls one of the copies.
func (u *unit) choice(mutants []int) string {
	var b strings.Builder
	b.WriteString(" switch triedMutant { ")
	for _, n := range mutants {
		call := u.of + u.copyName(n) + u.with
		if u.returns {
			fmt.Fprintf(&b, "case %d: return %s; ", n, call)
		} else {
			fmt.Fprintf(&b, "case %d: %s; return; ", n, call)
		}
	}
	b.WriteString("}; ")
	return b.String()
}

// Together returns a file with several of its mutants, by their numbers, all of which have copies.
func Together(source []byte, mutants map[int]Mutant) []byte {
	numbers := map[*unit][]int{}
	for _, n := range slices.Sorted(maps.Keys(mutants)) {
		of := mutants[n].of
		numbers[of] = append(numbers[of], n)
	}
	var b strings.Builder
	done := 0
	units := slices.SortedFunc(maps.Keys(numbers), func(a, b *unit) int { return cmp.Compare(a.from, b.from) })
	for _, u := range units {
		choice := u.choice(numbers[u])
		if u.value {
			b.Write(source[done:u.from])
			b.WriteString("func" + u.after + "{" + choice + "return ")
			b.Write(source[u.from:u.to])
			b.WriteString(" }()")
			done = u.to
			continue
		}
		b.Write(source[done : u.from+1])
		b.WriteString(choice)
		done = u.from + 1
	}
	b.Write(source[done:])
	for _, n := range slices.Sorted(maps.Keys(mutants)) {
		b.WriteString(mutants[n].of.copy(n, mutants[n], source))
	}
	return []byte(b.String())
}
