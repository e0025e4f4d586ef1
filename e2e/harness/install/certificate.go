package install

import (
	"net"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/pki"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"
)

// certificate is a serving certificate and its authority, in PEM.
type certificate struct {
	pki.Pair
	authority []byte
}

func newCertificate() (certificate, error) {
	const name = "breakwater webhook"
	authority, err := pki.NewAuthority(name)
	if err != nil {
		return certificate{}, err
	}
	served, err := authority.Server(name, []net.IP{net.ParseIP(port.Host), net.ParseIP(ExternalHost)})
	return certificate{Pair: served, authority: authority.PEM}, err
}
