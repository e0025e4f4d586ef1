package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// peersPath is the path prefix of requests from other replicas, which the webhook identifies by certificate.
const peersPath = "/peers/"

// keyReloadInterval is the interval at which the key files are read again. It equals the reload interval of the serving
// certificate.
const keyReloadInterval = 10 * time.Second

// tokenCaller is the context key of requests with a valid token for their scope.
type tokenCaller struct{}

// callerAuthenticator distinguishes authenticated callers from others, by the caller token in the path of a request.
type callerAuthenticator struct {
	folder   string // of the keys; empty accepts every caller
	interval time.Duration
	log      logr.Logger
	keys     atomic.Pointer[callerKeys]
	// label returns the caller label of a scope, for metrics.
	label   func(scope string) string
	metrics *metrics
}

// callerKeys are the keys of caller tokens. The webhook requires a token only if required is set.
type callerKeys struct {
	current, previous []byte
	required          bool
}

func (k *callerKeys) equal(other *callerKeys) bool {
	return other != nil && bytes.Equal(k.current, other.current) && bytes.Equal(k.previous, other.previous) && k.required == other.required
}

// readCallerKeys reads the keys from a folder. A missing file means that the key is absent.
func readCallerKeys(folder string) (*callerKeys, error) {
	if _, err := os.Stat(folder); err != nil {
		return nil, err
	}
	keys, required := &callerKeys{}, []byte(nil)
	for name, to := range map[string]*[]byte{
		webhookconfig.CurrentCallerKey: &keys.current, webhookconfig.PreviousCallerKey: &keys.previous, webhookconfig.CallersRequired: &required,
	} {
		raw, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		*to = raw
	}
	keys.required = string(bytes.TrimSpace(required)) == "true"
	return keys, nil
}

// start reads the keys, and reads them again until ctx ends. When the folder becomes unreadable, the last keys stay in
// use.
func (c *callerAuthenticator) start(ctx context.Context) error {
	if c.folder == "" {
		return nil
	}
	keys, err := readCallerKeys(c.folder)
	if err != nil {
		return fmt.Errorf("--caller-keys: %w", err)
	}
	c.setKeys(keys)
	go func() {
		ticker := time.NewTicker(c.interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if keys, err := readCallerKeys(c.folder); err != nil {
				c.log.Error(err, "Could not read caller keys, keeping the previous ones", "folder", c.folder)
			} else {
				c.setKeys(keys)
			}
		}
	}()
	return nil
}

func (c *callerAuthenticator) setKeys(keys *callerKeys) {
	before := c.keys.Swap(keys)
	if keys.equal(before) {
		return
	}
	c.log.Info("Read caller keys", "required", keys.required, "current", len(keys.current) > 0, "previous", len(keys.previous) > 0)
}

// authenticate passes the requests of authenticated callers to a handler, with the token removed from the path. It
// passes all requests unless tokens are required. Other callers get status 401 instead of a review, which makes an API
// server refuse the request if the failure policy of the webhook is Fail.
func (c *callerAuthenticator) authenticate(reviews http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, path := webhookconfig.SplitCallerToken(r.URL.Path)
		ctx := r.Context()
		if keys := c.keys.Load(); keys != nil && !strings.HasPrefix(path, peersPath) {
			scope := webhookconfig.CallerScope(path)
			if token != "" && webhookconfig.IsCallerToken(token, scope, keys.current, keys.previous) {
				ctx = context.WithValue(ctx, tokenCaller{}, true)
			} else {
				verdict := "accepted"
				if keys.required {
					verdict = "refused"
				}
				c.metrics.unauthenticated.WithLabelValues(c.label(scope), verdict).Inc()
				if keys.required {
					http.Error(w, "Breakwater answers only authenticated callers: the path in the webhook configuration has no valid caller token", http.StatusUnauthorized)
					return
				}
			}
		}
		if token != "" {
			// The handler never sees the token, so it cannot leak it.
			r = r.WithContext(ctx) // a copy
			address := url.URL{Path: path, RawQuery: r.URL.RawQuery}
			r.URL, r.RequestURI = &address, address.RequestURI()
		}
		reviews.ServeHTTP(w, r)
	})
}

// startCallerAuthentication makes the server authenticate callers by tokens, unless it requires client certificates.
func (s *Server) startCallerAuthentication(ctx context.Context) error {
	if s.ClientCAFile != "" {
		return nil
	}
	s.callers.folder, s.callers.log, s.callers.metrics, s.callers.label = s.CallerKeys, s.log, s.metrics, s.protection.CallerLabel
	if s.callers.interval == 0 {
		s.callers.interval = keyReloadInterval
	}
	return s.callers.start(ctx)
}
