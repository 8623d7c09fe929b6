package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/zclconf/go-cty/cty"
)

// readFile reads and decodes the file that from names, strictly.
func readFile(from given, options []Option) (layer, error) {
	path := from.texts[0]
	source, err := os.ReadFile(path)
	if err != nil {
		var failed *fs.PathError
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return nil, &fault{sort: ErrInvalid, cause: err,
			text: fmt.Sprintf("%s: cannot read the file: %v; give one that exists and that you may read", from.where,
				err)}
	}
	return decodeFile(source, path, options)
}

// decodeFile returns the values of the given options. Keys of all options are
// accepted, others are refused.
func decodeFile(source []byte, path string, options []Option) (layer, error) {
	file, diags := hclparse.NewParser().ParseHCL(source, path)
	if diags.HasErrors() {
		return nil, firstOf(diags, path)
	}
	content, diags := file.Body.Content(schema())
	if diags.HasErrors() {
		return nil, firstOf(diags, path)
	}
	l := layer{}
	for _, option := range options {
		attr, found := content.Attributes[option.Key()]
		if !found {
			continue
		}
		value, err := decode(option, attr, path)
		if err != nil {
			return nil, err
		}
		l[option.Name] = value
	}
	return l, nil
}

func schema() *hcl.BodySchema {
	s := &hcl.BodySchema{}
	for _, option := range table {
		if option.Key() != "" {
			s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: option.Key()})
		}
	}
	return s
}

// decode evaluates one attribute, without variables and functions.
func decode(option Option, attr *hcl.Attribute, path string) (given, error) {
	value, diags := attr.Expr.Value(nil)
	if diags.HasErrors() {
		return given{}, firstOf(diags, path)
	}
	at := fmt.Sprintf("%s:%d,%d", path, attr.NameRange.Start.Line, attr.NameRange.Start.Column)
	texts, err := textsOf(option, value)
	if err != nil {
		return given{}, Invalidf("%s: %s %v", at, attr.Name, err)
	}
	where := at + ": " + attr.Name
	if option.Kind != List && option.Kind != CommandLine {
		where += " = " + short(texts[0])
	}
	return given{option, texts, where, ErrInvalid}, nil
}

func textsOf(option Option, value cty.Value) ([]string, error) {
	t := value.Type()
	switch {
	case value.IsNull():
		return nil, errors.New("is null; give it a value or leave it out")
	case option.Kind == Switch && t == cty.Bool:
		return []string{fmt.Sprint(value.True())}, nil
	case option.Kind == Number && t == cty.Number:
		return []string{value.AsBigFloat().Text('f', -1)}, nil
	case (option.Kind == List || option.Kind == CommandLine) && t.IsTupleType():
		return elements(option, value)
	case option.Kind == CommandLine && t == cty.String:
		return splitWords(value.AsString())
	case option.Kind == List && t == cty.String && !option.fileOnly,
		option.Kind != List && option.Kind != Switch && t == cty.String:
		return []string{value.AsString()}, nil
	}
	return nil, fmt.Errorf("is a %s; write %s", t.FriendlyNameForConstraint(), example(option))
}

func elements(option Option, list cty.Value) ([]string, error) {
	texts := []string{}
	for i, element := range list.AsValueSlice() {
		if element.IsNull() || element.Type() != cty.String {
			return nil, fmt.Errorf("has something other than a string in place %d; write %s", i+1, example(option))
		}
		texts = append(texts, element.AsString())
	}
	return texts, nil
}

// example says how a value is written in the file.
func example(option Option) string {
	switch option.Kind {
	case Switch:
		return "true or false, without quotes"
	case List:
		return `strings in brackets, such as ["first", "second"]`
	case CommandLine:
		return `a program and its arguments, such as "/usr/bin/myhook --flag" or ["/usr/bin/myhook", "--flag"]`
	case Number:
		return "a whole number, without quotes"
	case Duration:
		return `a duration in quotes, such as "5s"`
	}
	return "a string in quotes"
}

// firstOf makes one line of the first mistake in the file.
func firstOf(diags hcl.Diagnostics, path string) error {
	mistakes := slices.DeleteFunc(slices.Clone(diags),
		func(d *hcl.Diagnostic) bool { return d.Severity != hcl.DiagError })
	// hcl walks maps, so the order differs from run to run.
	first := slices.MinFunc(mistakes, func(a, b *hcl.Diagnostic) int { return cmp.Compare(offset(a), offset(b)) })
	at := path
	if first.Subject != nil {
		at = fmt.Sprintf("%s:%d,%d", path, first.Subject.Start.Line, first.Subject.Start.Column)
	}
	text := strings.Join(strings.Fields(first.Summary+": "+first.Detail), " ")
	return Invalidf("%s: %s", at, advise(first.Summary, strings.TrimSuffix(text, ".")))
}

func offset(d *hcl.Diagnostic) int {
	if d.Subject == nil {
		return -1
	}
	return d.Subject.Start.Byte
}

// advise adds what to do where hcl does not say it.
func advise(summary, text string) string {
	switch {
	case summary == "Variables not allowed":
		return text + `; put text in quotes, and write "$${" for a literal "${"`
	case summary == "Invalid template control keyword": // its text has a piece of the value, perhaps of a password
		return summary + `; write "%%{" for a literal "%{"`
	case strings.HasSuffix(text, "?"):
		return text
	case summary == "Unsupported argument", summary == "Unsupported block type":
		return text + "; config.example.hcl lists every key"
	}
	return text + "; correct it there"
}
