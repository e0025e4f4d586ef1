package clusters_test

import (
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

func TestTokenExpiryFollowsRotation(t *testing.T) {
	first, second := time.Unix(2_000_000_000, 0), time.Unix(2_100_000_000, 0)
	rotating, err := clusters.NewRotatingConnection(&rest.Config{Host: "https://a.example", BearerToken: token(first)})
	if err != nil {
		t.Fatal(err)
	}
	config := rotating.Config()
	for _, want := range []time.Time{first, second} {
		if err := rotating.Set(&rest.Config{Host: "https://a.example", BearerToken: token(want)}); err != nil {
			t.Fatal(err)
		}
		if got, ok := clusters.TokenExpiry(config); !ok || !got.Equal(want) {
			t.Errorf("TokenExpiry() = %s, %t, want %s", got, ok, want)
		}
	}
	for claim, config := range map[string]*rest.Config{
		"a token that does not say":           {BearerToken: "opaque"},
		"no token":                            {},
		"a token that the kubelet replaces":   {BearerToken: token(first), BearerTokenFile: "/var/run/secrets/kubernetes.io/serviceaccount/token"},
		"a kubeconfig with a certificate now": {Transport: rotating},
	} {
		if err := rotating.Set(&rest.Config{Host: "https://a.example"}); err != nil {
			t.Fatal(err)
		}
		if got, ok := clusters.TokenExpiry(config); ok {
			t.Errorf("%s: TokenExpiry() = %s, want none", claim, got)
		}
	}
}
