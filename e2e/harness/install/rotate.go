package install

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/pki"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"
)

// certificate is the webhooks' serving certificate and its authority, in PEM.
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

// WebhookAddresses returns the host:port of each webhook, behind the balancer.
func (i *Installation) WebhookAddresses() []string { return i.webhooks.addresses.all() }

// Rotation replaces the certificate of the webhooks and its authority. The caller calls the steps in order, each after the API
// servers have applied the previous one.
type Rotation struct {
	installation *Installation
	old, new     certificate
}

// Rotate creates a new certificate, which is not yet served or trusted.
func (i *Installation) Rotate() (*Rotation, error) {
	renewed, err := newCertificate()
	return &Rotation{installation: i, old: i.webhooks.serving, new: renewed}, err
}

// TrustBoth makes all API servers trust both authorities.
func (r *Rotation) TrustBoth(ctx context.Context) error {
	return r.installation.trust(ctx, r.old, r.new)
}

// Serve replaces the certificate, and returns when every webhook serves the new one.
func (r *Rotation) Serve(ctx context.Context) error {
	hooks := r.installation.webhooks
	if err := hooks.write(r.new); err != nil {
		return err
	}
	hooks.serving = r.new
	for _, replica := range hooks.addresses.all() {
		var last error
		err := wait.PollUntilContextCancel(ctx, readyPause, true, func(ctx context.Context) (bool, error) {
			last = checkServes(ctx, replica, r.new)
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("wait until the webhook at %s serves its new certificate: %w", replica, errors.Join(err, last))
		}
	}
	return nil
}

// TrustNew makes all API servers trust only the new authority.
func (r *Rotation) TrustNew(ctx context.Context) error { return r.installation.trust(ctx, r.new) }

// trust makes all API servers trust the authorities of these certificates.
func (i *Installation) trust(ctx context.Context, all ...certificate) error {
	var bundle []byte
	for _, one := range all {
		bundle = append(bundle, one.authority...)
	}
	if err := os.WriteFile(i.webhooks.authority, bundle, 0o600); err != nil {
		return fmt.Errorf("write the authority of the webhooks: %w", err)
	}
	return i.Configure(ctx)
}

// checkServes returns why a webhook does not serve a certificate.
func checkServes(ctx context.Context, address string, want certificate) error {
	// This only checks which certificate the webhook presents, and not whether it is trusted.
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	block, _ := pem.Decode(want.Certificate)
	if presented := conn.(*tls.Conn).ConnectionState().PeerCertificates; !bytes.Equal(presented[0].Raw, block.Bytes) {
		return errors.New("the webhook serves another certificate")
	}
	return nil
}

// write replaces the certificate and the key, each atomically, as in a mounted Secret.
func (w *webhooks) write(c certificate) error {
	for file, content := range map[string][]byte{w.certificateFile: c.Certificate, w.keyFile: c.Key} {
		next := filepath.Join(filepath.Dir(file), "next-"+filepath.Base(file))
		if err := errors.Join(os.WriteFile(next, content, 0o600), os.Rename(next, file)); err != nil {
			return fmt.Errorf("write the certificate of the webhooks: %w", err)
		}
	}
	return nil
}
