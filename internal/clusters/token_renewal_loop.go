package clusters

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// RenewalInterval is how often a token is checked, and its renewal is tried while it is due. A token of 30 days has at least a week left then.
const RenewalInterval = time.Minute

// renewalTimeout bounds one check or renewal.
const renewalTimeout = 30 * time.Second

// TokenRenewalLoop renews the token of one kubeconfig for as long as a manager runs. All replicas run it: see TokenRenewer.
type TokenRenewalLoop struct {
	Renewer *TokenRenewer
	Secret  v1alpha1.KubeconfigSecretRef
	Log     logr.Logger
	// Interval is RenewalInterval, except in tests.
	Interval time.Duration
}

// NeedLeaderElection is false: replicas of a webhook elect no leader.
func (l *TokenRenewalLoop) NeedLeaderElection() bool { return false }

// Start checks and renews the token until ctx ends. It logs why a renewal is not possible when the reason changes.
func (l *TokenRenewalLoop) Start(ctx context.Context) error {
	log, last := l.Log.WithValues("secret", l.Secret.Namespace+"/"+l.Secret.Name), ""
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, renewalTimeout)
		defer cancel()
		renewal := l.Renewer.Renew(ctx, l.Secret)
		if renewal.Renewed {
			log.Info("Renewed the token of a kubeconfig", "expires", renewal.Expires)
		}
		if now := errorText(renewal.Err); now != last && now != "" {
			log.Error(renewal.Err, "Cannot renew the token of a kubeconfig", "expires", renewal.Expires)
			last = now
		}
	}, l.Interval)
	return nil
}
