package podwire

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// List is a PodList.
type List struct {
	format Format
	body   []byte
	items  [][]byte
	// begin and end are where the items are in body, if it is JSON. They are equal if it has none.
	begin, end int
}

// ParseList parses the body of a list of pods.
func ParseList(f Format, body []byte) (*List, error) {
	l := &List{format: f, body: body}
	parse := l.parseProtobuf
	if f == JSON {
		parse = l.parseJSON
	}
	if err := parse(); err != nil {
		return nil, fmt.Errorf("parse a list of pods: %w", err)
	}
	return l, nil
}

func (l *List) parseProtobuf() error {
	raw, err := unwrap(l.body)
	if err != nil {
		return err
	}
	l.items, err = bytesFields(raw, listItems)
	return err
}

func (l *List) parseJSON() error {
	if err := eachMember(l.body, func(key string, begin, end int) error {
		if key != "items" {
			return nil
		}
		if l.end > 0 {
			return fmt.Errorf("it has items twice")
		}
		l.begin, l.end = begin, end
		return nil
	}); err != nil || l.end == 0 {
		return err
	}
	var items []json.RawMessage
	if err := json.Unmarshal(l.body[l.begin:l.end], &items); err != nil {
		return fmt.Errorf("items: %w", err)
	}
	for _, item := range items {
		l.items = append(l.items, item)
	}
	return nil
}

// Items returns the encoded pods.
func (l *List) Items() [][]byte { return l.items }

// WithItems returns the list with other pods, of the same format.
func (l *List) WithItems(items [][]byte) ([]byte, error) {
	if l.format == JSON {
		array := append(append([]byte("["), bytes.Join(items, []byte(","))...), ']')
		if l.end == 0 {
			return withMembers(l.body, append([]byte(`"items":`), array...))
		}
		return bytes.Join([][]byte{l.body[:l.begin], array, l.body[l.end:]}, nil), nil
	}
	raw, err := unwrap(l.body)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := eachField(raw, func(number protowire.Number, whole, _ []byte) {
		if number != listItems {
			out.Write(whole)
		}
	}); err != nil {
		return nil, err
	}
	for _, item := range items {
		out.Write(appendBytes(nil, listItems, item))
	}
	return rewrap(l.body, out.Bytes())
}
