package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"reflect"
)

// peerProtocolVersion is raised when the messages between replicas change their meaning but keep their fields.
const peerProtocolVersion = 2

// peerProtocol names the format of the messages between replicas, and is part of the request path. During a rolling upgrade
// replicas of two versions coexist. A replica that does not have a field of the other would ignore it, and reserve less
// than it was asked for. So it must answer that it cannot, and the replica that asked decides itself. The name is
// computed from the types, so that no change of them can be forgotten.
//
//nolint:gochecknoglobals // a constant in all but the language's sense
var peerProtocol = peerProtocolName(peerProtocolVersion, reflect.TypeFor[handedOver](), reflect.TypeFor[taken]())

func peerProtocolName(version int, types ...reflect.Type) string {
	hash := sha256.New()
	for _, t := range types {
		describe(hash, t, map[reflect.Type]bool{})
	}
	return fmt.Sprintf("v%d-%s", version, hex.EncodeToString(hash.Sum(nil)[:6]))
}

// describe writes the JSON format of a type to out.
func describe(out io.Writer, t reflect.Type, seen map[reflect.Type]bool) {
	_, _ = fmt.Fprintf(out, "%s %s;", t, t.Kind())
	if seen[t] {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if field := t.Field(i); field.IsExported() {
				_, _ = fmt.Fprintf(out, "%s %q ", field.Name, field.Tag.Get("json"))
				describe(out, field.Type, seen)
			}
		}
	case reflect.Map:
		describe(out, t.Key(), seen)
		describe(out, t.Elem(), seen)
	case reflect.Slice, reflect.Array, reflect.Pointer:
		describe(out, t.Elem(), seen)
	default:
	}
}
