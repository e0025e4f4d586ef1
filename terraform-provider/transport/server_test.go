package transport

import (
	"testing"

	"k8s.io/client-go/rest"
)

func TestServerOfOmitsPassword(t *testing.T) {
	for host, want := range map[string]string{
		"https://127.0.0.1:6443":                     "https://127.0.0.1:6443",
		"https://admin:secret@core.example.com/k8s/": "https://core.example.com/k8s/",
		"core.example.com":                           "http://core.example.com",
	} {
		if got, err := ServerOf(&rest.Config{Host: host}); err != nil || got != want {
			t.Errorf("ServerOf(%s) = %s (%v)", host, got, err)
		}
	}
}
