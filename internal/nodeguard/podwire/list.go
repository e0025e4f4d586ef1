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
	// body is the response, without its items if it is JSON.
	body  []byte
	json  map[string]json.RawMessage
	items [][]byte
}

// ParseList parses the body of a list of pods.
func ParseList(f Format, body []byte) (*List, error) {
	l := &List{format: f, body: body}
	if f == JSON {
		if err := json.Unmarshal(body, &l.json); err != nil {
			return nil, fmt.Errorf("parse a list of pods: %w", err)
		}
		var items []json.RawMessage
		if raw, ok := l.json["items"]; ok {
			if err := json.Unmarshal(raw, &items); err != nil {
				return nil, fmt.Errorf("parse the items of a list of pods: %w", err)
			}
		}
		for _, item := range items {
			l.items = append(l.items, item)
		}
		return l, nil
	}
	raw, err := unwrap(body)
	if err != nil {
		return nil, fmt.Errorf("parse a list of pods: %w", err)
	}
	err = eachField(raw, func(number protowire.Number, _, value []byte) {
		if number == listItems {
			l.items = append(l.items, value)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("parse a list of pods: %w", err)
	}
	return l, nil
}

// Items returns the encoded pods.
func (l *List) Items() [][]byte { return l.items }

// WithItems returns the list with other pods, of the same format.
func (l *List) WithItems(items [][]byte) ([]byte, error) {
	if l.format == JSON {
		all := make([]json.RawMessage, 0, len(items))
		for _, item := range items {
			all = append(all, item)
		}
		raw, err := json.Marshal(all)
		if err != nil {
			return nil, err
		}
		l.json["items"] = raw
		return json.Marshal(l.json)
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
