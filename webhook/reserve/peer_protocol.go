package reserve

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"reflect"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// peerProtocolVersion is raised when the messages between replicas change their meaning but keep their fields.
const peerProtocolVersion = 2

// PeerProtocol names the format of the messages between replicas, and is part of the request path. During a rolling upgrade
// replicas of two versions coexist. A replica that does not have a field of the other would ignore it, and reserve less
// than it was asked for. So it must answer that it cannot, and the replica that asked decides itself. The name is
// computed from the types, so that no change of them can be forgotten.
//
//nolint:gochecknoglobals // a constant in all but the language's sense
var PeerProtocol = peerProtocolName(peerProtocolVersion, reflect.TypeFor[handedOver](), reflect.TypeFor[taken]())

func peerProtocolName(version int, types ...reflect.Type) string {
	hash := sha256.New()
	for _, t := range types {
		describe(hash, t, map[reflect.Type]bool{})
	}
	return fmt.Sprintf("v%d-%s", version, hex.EncodeToString(hash.Sum(nil)[:6]))
}

// describe writes the JSON format of a type to out, whatever package the type is in.
func describe(out io.Writer, t reflect.Type, seen map[reflect.Type]bool) {
	_, _ = fmt.Fprintf(out, "%s %s;", t.Name(), t.Kind())
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

const (
	// maxForwardBytes limits the size of a forward batch and of its answer.
	maxForwardBytes = 4 << 20
	// maxForwardRemovals limits the removals of a forward batch. The limit in bytes is not enough: decoded from the
	// shortest JSON, a forward batch would take a hundred times its size.
	maxForwardRemovals = 4_096
)

// handedOver is the body of a request to another replica, and taken is the body of its answer, in the same order.
type handedOver struct {
	Removals handedRemovals `json:"removals"`
}

// handedRemovals are at most maxForwardRemovals removals.
type handedRemovals []quota.Removal

// UnmarshalJSONFrom implements json.UnmarshalerFrom. It stops at the first removal over the limit.
func (r *handedRemovals) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	*r = nil
	begin, err := from.ReadToken()
	if err != nil || begin.Kind() == jsontext.KindNull {
		return err
	}
	if begin.Kind() != jsontext.KindBeginArray {
		return fmt.Errorf("field removals has kind %s, want an array", begin.Kind())
	}
	for from.PeekKind() != jsontext.KindEndArray {
		if len(*r) == maxForwardRemovals {
			return fmt.Errorf("more than %d removals", maxForwardRemovals)
		}
		one := quota.Removal{}
		if err := json2.UnmarshalDecode(from, &one); err != nil {
			return err
		}
		*r = append(*r, one)
	}
	_, err = from.ReadToken()
	return err
}

type taken struct {
	Decided []decided `json:"decided"`
}

type decided struct {
	Verdict quota.Verdict `json:"verdict"`
	Claim   quota.Claim   `json:"claim"`
}
