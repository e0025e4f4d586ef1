package reserve

import (
	"reflect"
	"testing"
)

func TestPeerProtocolNameDependsOnTypes(t *testing.T) {
	type inner struct{ A int }
	type plain struct{ Removals []inner }
	type wider struct {
		Removals []struct{ A, B int }
	}
	type renamed struct {
		Removals []inner `json:"removals"`
	}
	type retyped struct{ Removals []struct{ A string } }
	names := map[string]string{}
	for kind, name := range map[string]string{
		"plain":          peerProtocolName(1, reflect.TypeFor[plain]()),
		"a field more":   peerProtocolName(1, reflect.TypeFor[wider]()),
		"another name":   peerProtocolName(1, reflect.TypeFor[renamed]()),
		"another type":   peerProtocolName(1, reflect.TypeFor[retyped]()),
		"a later number": peerProtocolName(2, reflect.TypeFor[plain]()),
	} {
		if other, taken := names[name]; taken {
			t.Errorf("peerProtocolName() of %s and of %s are both %s", kind, other, name)
		}
		names[name] = kind
	}
	if a, b := peerProtocolName(1, reflect.TypeFor[plain]()), peerProtocolName(1, reflect.TypeFor[plain]()); a != b {
		t.Errorf("peerProtocolName() of one type is %s and %s", a, b)
	}
}

// During an upgrade, replicas with different exchange versions hand nothing over, which causes conflicts. A refactoring
// must not change the version.
func TestPeerProtocolIsUnchanged(t *testing.T) {
	if want := "v2-a89b40fefe92"; PeerProtocol != want {
		t.Errorf("peer protocol %s, want %s: change this test only if the messages between replicas change on purpose", PeerProtocol, want)
	}
}
