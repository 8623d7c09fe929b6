package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// Mutant is one change of one file, after which a test has to fail.
type Mutant struct {
	File string // relative to the module's root
	Line int
	In   string // the function, or what else is declared there
	What string // was changed, for people

	from, to int // the bytes of the file in whose place comes
	text     string
	of       *unit // nil: what has no copies
}

// String says where and what. It is the same on every line, so that a list of mutants outlives changes above them.
func (m Mutant) String() string { return m.File + ": " + m.In + ": " + m.What }

// zero is what a mutant calls that has nothing in place of a value. It is in the package's other file, beside.
const zero = "nothingOfMutant"

// Apply returns the file with the change.
func (m Mutant) Apply(source []byte) []byte {
	return slices.Concat(source[:m.from], []byte(m.text), source[m.to:])
}

// Mutants returns all that can be changed in the functions and variables that are wanted: "History.Wait", "table".
func (p *Package) Mutants(file string, wanted func(string) bool) []Mutant {
	parsed := p.files[file]
	m := &mutator{Package: p, file: p.positions.File(parsed.Pos()), name: file, source: p.sources[file]}
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if m.in = nameOf(d); d.Body != nil && wanted(m.in) {
				m.of = m.copied(d)
				m.function(d.Type, d.Body)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && wanted(v.Names[0].Name) {
					m.in = v.Names[0].Name
					m.values(d.Tok, v)
				}
			}
		}
	}
	return m.all
}

func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if i, ok := of.(*ast.IndexExpr); ok {
		of = i.X
	}
	return of.(*ast.Ident).Name + "." + f.Name.Name
}

// Package is what a package declares.
type Package struct {
	positions *token.FileSet
	files     map[string]*ast.File
	sources   map[string][]byte

	variadic map[string]bool // functions of whose arguments one can be left out
	empty    map[string]bool // what has no value anyway
}

// Parse reads the files of a package, by their names.
func Parse(sources map[string][]byte) (*Package, error) {
	p := &Package{
		positions: token.NewFileSet(), files: map[string]*ast.File{}, sources: sources, variadic: map[string]bool{},
		empty: map[string]bool{"nil": true, "true": true, "false": true, "_": true},
	}
	for name, source := range sources {
		file, err := parser.ParseFile(p.positions, name, source, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.files[name] = file
		for _, d := range file.Decls {
			p.declare(d)
		}
	}
	return p, nil
}

func (p *Package) declare(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		for _, param := range d.Type.Params.List {
			if _, ok := param.Type.(*ast.Ellipsis); ok && d.Recv == nil {
				p.variadic[d.Name.Name] = true
			}
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			for i, name := range v.Names {
				nothing := d.Tok == token.VAR && v.Values == nil
				if i < len(v.Values) {
					value, ok := v.Values[i].(*ast.BasicLit)
					nothing = ok && (value.Value == `""` || value.Value == "0")
				}
				p.empty[name.Name] = nothing
			}
		}
	}
}

// mutator finds the mutants of one file.
type mutator struct {
	*Package
	file   *token.File
	name   string
	source []byte
	in     string
	of     *unit
	all    []Mutant
}

func (m *mutator) text(n ast.Node) string {
	return string(m.source[m.file.Offset(n.Pos()):m.file.Offset(n.End())])
}

// replace adds the mutant that has the text in place of what there is.
func (m *mutator) replace(n ast.Node, text, what string) {
	m.add(n, m.file.Offset(n.Pos()), m.file.Offset(n.End()), text, what)
}

func (m *mutator) add(n ast.Node, from, to int, text, what string) {
	m.all = append(m.all, Mutant{
		File: m.name, Line: m.file.Line(n.Pos()), In: m.in, What: what + ": " + brief(m.text(n)),
		from: from, to: to, text: text, of: m.of,
	})
}

// brief has a piece of source fit on a line.
func brief(source string) string {
	const most = 100
	line := strings.Join(strings.Fields(source), " ")
	if len(line) > most {
		line = line[:most] + "..."
	}
	return line
}

// without adds the mutant that lacks an element of a list.
func (m *mutator) without(n ast.Node) {
	from, to := m.file.Offset(n.Pos()), m.file.Offset(n.End())
	if rest := m.source[to:]; len(rest) > 0 && rest[0] == ',' {
		to++
	}
	m.add(n, from, to, "", "left out")
}

// nothing adds the mutant that has no value there.
func (m *mutator) nothing(e ast.Expr) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return // a number is changed otherwise, a text is for people
	case *ast.Ident:
		if m.empty[e.Name] {
			return
		}
	case *ast.CompositeLit:
		if len(e.Elts) == 0 {
			return
		}
	case *ast.FuncLit:
		return
	}
	m.replace(e, zero+"("+m.text(e)+")", "nothing")
}

func (m *mutator) values(of token.Token, v *ast.ValueSpec) {
	for i, value := range v.Values {
		m.of = nil
		literal, composite := value.(*ast.CompositeLit)
		switch {
		case composite:
			m.of = m.copiedValue(v.Names[i].Name, literal)
		case of == token.VAR:
			m.nothing(value)
		}
		m.expression(value, nil)
	}
}

// function adds what can be changed in the body of a function.
func (m *mutator) function(kind *ast.FuncType, body *ast.BlockStmt) {
	results := 0
	if kind.Results != nil {
		results = kind.Results.NumFields()
	}
	isBool := func(i int) bool {
		if len(kind.Results.List) == results { // or several share a type
			kind, ok := kind.Results.List[i].Type.(*ast.Ident)
			return ok && kind.Name == "bool"
		}
		return false
	}
	m.statements(body, results, isBool)
}

// statement adds what can be changed of one statement, and reports whether its parts are to be looked at.
func (m *mutator) statement(n ast.Stmt, results int, isBool func(int) bool) bool {
	switch n := n.(type) {
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt, *ast.DeferStmt, *ast.BranchStmt:
		m.replace(n, "", "dropped")
	case *ast.AssignStmt:
		switch {
		case n.Tok != token.DEFINE:
			m.replace(n, "_ = 0", "dropped")
		case len(n.Lhs) == len(n.Rhs):
			for _, value := range n.Rhs {
				m.nothing(value)
			}
		}
	case *ast.ReturnStmt:
		if results == 0 {
			m.replace(n, "", "dropped")
		}
		for i, value := range n.Results {
			if len(n.Results) == results && isBool(i) {
				m.condition(value, true)
				continue
			}
			if len(n.Results) == results {
				m.nothing(value)
			}
			m.expression(value, nil)
		}
		return false
	case *ast.IfStmt:
		if n.Init != nil {
			m.statements(n.Init, results, isBool)
		}
		m.condition(n.Cond, true)
		m.statements(n.Body, results, isBool)
		if n.Else != nil {
			m.statements(n.Else, results, isBool)
		}
		return false
	case *ast.ForStmt: // not what would have it never end
		if n.Init != nil {
			m.statements(n.Init, results, isBool)
		}
		m.statements(n.Body, results, isBool)
		if n.Cond != nil {
			m.condition(n.Cond, false)
		}
		return false
	case *ast.SwitchStmt:
		m.clauses(n, results, isBool)
		return false
	case *ast.TypeSwitchStmt:
		m.choices(n.Body, results, isBool)
		return false
	case *ast.SelectStmt:
		m.choices(n.Body, results, isBool)
		return false
	}
	return true
}

// statements adds what can be changed within a statement.
func (m *mutator) statements(n ast.Node, results int, isBool func(int) bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case ast.Stmt:
			return m.statement(n, results, isBool)
		case ast.Expr:
			m.expression(n, nil)
			return false
		}
		return true
	})
}

// clauses is for a switch: of one without a tag each case is a condition.
func (m *mutator) clauses(n *ast.SwitchStmt, results int, isBool func(int) bool) {
	if n.Init != nil {
		m.statements(n.Init, results, isBool)
	}
	if n.Tag != nil {
		m.expression(n.Tag, nil)
	}
	for _, s := range n.Body.List {
		c := s.(*ast.CaseClause)
		for _, e := range c.List {
			switch {
			case n.Tag == nil:
				m.condition(e, true)
			case len(c.List) > 1:
				m.without(e)
			}
		}
		if n.Tag != nil && len(c.List) < 2 || c.List == nil {
			m.replace(c, "", "left out")
		}
		for _, s := range c.Body {
			m.statements(s, results, isBool)
		}
	}
}

// choices is for clauses that are chosen by something else than a value.
func (m *mutator) choices(body *ast.BlockStmt, results int, isBool func(int) bool) {
	for _, c := range body.List {
		m.replace(c, "", "left out")
		var then []ast.Stmt
		switch c := c.(type) {
		case *ast.CaseClause:
			then = c.Body
		case *ast.CommClause:
			then = c.Body
		}
		for _, s := range then {
			m.statements(s, results, isBool)
		}
	}
}

// condition adds what can be changed of what is true or false: it always is, it never is, a part of it does not count.
func (m *mutator) condition(e ast.Expr, always bool) {
	if always {
		m.is(e, true)
	}
	m.is(e, false)
	m.parts(e)
	m.expression(e, e)
}

// is adds the mutant in which a condition always has a value.
func (m *mutator) is(e ast.Expr, value bool) {
	if i, ok := e.(*ast.Ident); ok && (i.Name == "true" || i.Name == "false") {
		return // it is turned round
	}
	if value {
		m.replace(e, "(("+m.text(e)+") || true)", "always")
	} else {
		m.replace(e, "(("+m.text(e)+") && false)", "never")
	}
}

func (m *mutator) parts(e ast.Expr) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		m.parts(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			m.parts(e.X)
		}
	case *ast.BinaryExpr:
		if e.Op == token.LAND || e.Op == token.LOR {
			for _, part := range []ast.Expr{e.X, e.Y} {
				m.is(part, e.Op == token.LAND)
				m.parts(part)
			}
		}
	}
}

// swapped is what comes in place of an operator. Comparisons for equality are conditions, which are always or never.
var swapped = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
	token.AND: token.OR, token.OR: token.AND, token.SHL: token.SHR, token.SHR: token.SHL,
}

// expression adds what can be changed within an expression. known is a condition that was looked at.
func (m *mutator) expression(e ast.Expr, known ast.Expr) {
	within := map[ast.Node]bool{known: known != nil} // conditions that are parts of others
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			m.function(n.Type, n.Body)
			return false
		case *ast.ParenExpr:
			within[n.X] = within[n]
		case *ast.BinaryExpr:
			m.binary(n, within)
		case *ast.UnaryExpr:
			if n.Op == token.SUB {
				m.replace(n, m.text(n.X), "without its sign")
			}
			if n.Op == token.NOT {
				if !within[n] {
					m.is(n, true)
					m.is(n, false)
				}
				within[n.X] = true
			}
		case *ast.BasicLit:
			if n.Kind == token.INT || n.Kind == token.FLOAT || n.Kind == token.CHAR {
				m.replace(n, "("+n.Value+"+1)", "one more")
			}
		case *ast.Ident:
			other := map[string]string{"true": "false", "false": "true"}[n.Name]
			if other != "" {
				m.replace(n, other, "turned round")
			}
		case *ast.CallExpr:
			m.call(n)
		case *ast.CompositeLit:
			m.composite(n)
		}
		return true
	})
}

func (m *mutator) binary(n *ast.BinaryExpr, within map[ast.Node]bool) {
	switch n.Op {
	case token.LAND, token.LOR, token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
		if !within[n] {
			m.is(n, true)
			m.is(n, false)
			m.parts(n)
		}
		if n.Op == token.LAND || n.Op == token.LOR {
			within[n.X], within[n.Y] = true, true
		}
	}
	text := func(e ast.Expr) bool { l, ok := e.(*ast.BasicLit); return ok && l.Kind == token.STRING }
	if other, ok := swapped[n.Op]; ok && !text(n.X) && !text(n.Y) {
		at := m.file.Offset(n.OpPos)
		m.add(n, at, at+len(n.Op.String()), other.String(), n.Op.String()+" is "+other.String())
	}
}

func (m *mutator) call(n *ast.CallExpr) {
	called, ok := n.Fun.(*ast.Ident)
	if !ok {
		return
	}
	if other := map[string]string{"min": "max", "max": "min"}[called.Name]; other != "" {
		at := m.file.Offset(called.Pos())
		m.add(n, at, at+len(other), other, called.Name+" is "+other)
	}
	if m.variadic[called.Name] && !n.Ellipsis.IsValid() {
		for _, arg := range n.Args {
			if _, composite := arg.(*ast.CompositeLit); !composite {
				m.without(arg)
			}
		}
	}
}

// composite is for a value that is written down: an element of a list is left out, a field of a structure has nothing.
func (m *mutator) composite(n *ast.CompositeLit) {
	list := false
	switch n.Type.(type) {
	case *ast.ArrayType, *ast.MapType:
		list = true
	}
	for _, e := range n.Elts {
		pair, keyed := e.(*ast.KeyValueExpr)
		switch {
		case list:
			m.element(e)
		case keyed:
			m.nothing(pair.Value)
		default:
			m.nothing(e)
		}
	}
}

// element leaves out one of a list. Without its first field, a row of a table counts for nothing already.
func (m *mutator) element(e ast.Expr) {
	if row, ok := e.(*ast.CompositeLit); ok && len(row.Elts) > 0 {
		if _, keyed := row.Elts[0].(*ast.KeyValueExpr); !keyed {
			return
		}
	}
	m.without(e)
}
