package printable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	yamlnode "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// JSON returns the same JSON with an escape for each character that cannot be shown: it decodes to the same value.
func JSON(text []byte) []byte {
	return replaced(text, func(r rune) string {
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			return fmt.Sprintf(`\u%04x\u%04x`, high, low)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
}

// YAML returns a value as sigs.k8s.io/yaml writes it. Texts with characters that cannot be shown are in double quotes, and those
// characters escapes: it decodes to the same value.
func YAML(value any) ([]byte, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	// It is read as YAML, which has no pairs of surrogates and no raw DEL.
	text, err := yaml.JSONToYAML(replaced(raw, codePoint))
	if err != nil || isShown(text) {
		return text, err
	}
	document := yamlnode.Node{}
	if err := yamlnode.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("read YAML to escape it: %w", err)
	}
	quote(&document)
	var out bytes.Buffer
	encoder := yamlnode.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(&document); err != nil {
		return nil, fmt.Errorf("write YAML with escapes: %w", err)
	}
	return replaced(out.Bytes(), codePoint), nil
}

func codePoint(r rune) string {
	if r > 0xffff {
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// quote puts scalars into double quotes that need escapes.
func quote(n *yamlnode.Node) {
	if n.Kind == yamlnode.ScalarNode && !isShown([]byte(n.Value)) {
		n.Style = yamlnode.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		quote(child)
	}
}

// isLayout reports whether a character is the white space between the tokens of JSON and YAML. Within strings only YAML has any as it is.
func isLayout(r rune) bool { return r == '\n' || r == '\t' }

func isShown(text []byte) bool {
	return !bytes.ContainsFunc(text, func(r rune) bool { return !IsShown(r) && !isLayout(r) })
}

func replaced(text []byte, escape func(rune) string) []byte {
	if isShown(text) {
		return text
	}
	var b bytes.Buffer
	for len(text) > 0 {
		r, width := utf8.DecodeRune(text)
		if IsShown(r) || isLayout(r) {
			b.Write(text[:width])
		} else {
			b.WriteString(escape(r))
		}
		text = text[width:]
	}
	return b.Bytes()
}
