package chaos

import (
	"context"
	"time"
)

// rotateCertificates replaces the certificate that the webhooks serve, and its authority, in the three steps that lose nothing: trust
// both, serve the new one, trust only the new one. An API server does not report when it has applied a configuration, so each step gets
// some seconds.
func rotateCertificates(ctx context.Context, p *play) error {
	rotation, err := p.stage.Breakwater.Rotate()
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{rotation.TrustBoth, rotation.Serve, rotation.TrustNew} {
		if err := step(ctx); err != nil {
			return err
		}
		if err := p.waitBetween(ctx, 3*time.Second, 4*time.Second); err != nil {
			return err
		}
	}
	return nil
}
