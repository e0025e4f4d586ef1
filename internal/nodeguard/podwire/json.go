package podwire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

var errNoObject = errors.New("it is not a JSON object")

// eachMember calls do with each member of a JSON object: its key, and where its value is.
func eachMember(object []byte, do func(key string, begin, end int) error) error {
	d := json.NewDecoder(bytes.NewReader(object))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return errors.Join(errNoObject, err)
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string) // the decoder accepts no other key
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		end := int(d.InputOffset())
		if err := do(key, end-len(value), end); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.Join(errNoObject, err)
	}
	return nil
}

// withMembers returns a JSON object with more members, which are encoded.
func withMembers(object, members []byte) ([]byte, error) {
	empty := true
	if err := eachMember(object, func(string, int, int) error {
		empty = false
		return nil
	}); err != nil {
		return nil, err
	}
	begin := bytes.IndexByte(object, '{') + 1
	if !empty {
		members = append(members[:len(members):len(members)], ',')
	}
	return bytes.Join([][]byte{object[:begin], members, object[begin:]}, nil), nil
}
