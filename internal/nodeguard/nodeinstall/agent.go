package nodeinstall

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// Agent keeps the guard installed on a node, and the token of its account valid. A DaemonSet runs it.
type Agent struct {
	*Node
	// Tokens requests tokens of ServiceAccount, in Node.Namespace.
	Tokens interface {
		RequestToken(ctx context.Context, namespace, account, node string) (token []byte, expires time.Time, err error)
	}
	ServiceAccount string
	// Remove makes the agent uninstall the guard instead.
	Remove bool
	Log    logr.Logger

	token   []byte
	renewAt time.Time
	healthy atomic.Bool
}

const (
	// checkEvery is how often the agent checks the installation. kubeadm can rewrite the kubelet's kubeconfig at any time.
	checkEvery = 30 * time.Second
	// checkTimeout limits a check, so that a systemd that does not answer is reported.
	checkTimeout = 2 * time.Minute
	// renewEvery is how often the token is renewed.
	renewEvery = 24 * time.Hour
)

// Run keeps the guard installed until ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		err := a.check(ctx)
		if err != nil && ctx.Err() == nil {
			a.Log.Error(err, "Failed to keep the node as requested, retrying", "uninstall", a.Remove)
		}
		a.healthy.Store(err == nil)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// ServeHTTP answers whether the last check succeeded.
func (a *Agent) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if !a.healthy.Load() {
		http.Error(w, "the last check failed; the log says why", http.StatusServiceUnavailable)
	}
}

func (a *Agent) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if a.Remove {
		return a.Uninstall(ctx, false)
	}
	renewed := a.renewToken(ctx)
	if len(a.token) == 0 {
		return renewed
	}
	err := a.Install(ctx, a.token)
	if errors.Is(err, errNotRunning) {
		err = errors.Join(err, a.bypass(ctx))
	}
	return errors.Join(renewed, err)
}

// renewToken renews the token if it is due. If it cannot, it uses the one on the node.
func (a *Agent) renewToken(ctx context.Context) error {
	if time.Now().Before(a.renewAt) {
		return nil
	}
	token, expires, err := a.Tokens.RequestToken(ctx, a.Namespace, a.ServiceAccount, a.Name)
	if err != nil {
		if len(a.token) == 0 {
			a.token, _ = os.ReadFile(a.tokenPath()) // a first installation has none
		}
		return err
	}
	// API servers can limit the lifetime of tokens.
	lifetime := time.Until(expires)
	if lifetime <= 0 {
		return fmt.Errorf("the API server issued a token that expired at %s; check the clock of the node", expires)
	}
	a.token, a.renewAt = token, time.Now().Add(min(renewEvery, lifetime/3))
	return nil
}
