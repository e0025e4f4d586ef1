package clusters

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// reloadInterval is how often a KubeconfigReloader reads its kubeconfig from disk.
const reloadInterval = 5 * time.Second

// KubeconfigReloader makes clients use the current content of a kubeconfig file. The credentials and the certificate authority may be replaced while
// the clients run, as those of a mounted Secret are. The address may not change, since another address can be another cluster.
type KubeconfigReloader struct {
	Log logr.Logger

	connection Connection
	component  string
	rotating   *RotatingConnection
	address    string
	content    []byte
	// interval is how often the reloader reads the file.
	interval time.Duration
}

// ReloadingConfig is like Config, but also returns a KubeconfigReloader that must run beside the clients. It is nil when there is no single file to follow.
func (c Connection) ReloadingConfig(component string) (*rest.Config, *KubeconfigReloader, error) {
	// Read the file first, so that a later change is detected.
	var content []byte
	if c.Kubeconfig != "" && c.Kubeconfig != InCluster {
		content, _ = os.ReadFile(c.Kubeconfig) // Config reports the error
	}
	config, err := c.Config(component)
	if err != nil || content == nil {
		return config, nil, err
	}
	rotating, err := NewRotatingConnection(config)
	if err != nil {
		return nil, nil, fmt.Errorf("kubeconfig %q: %w", c.Kubeconfig, err)
	}
	base := rotating.current.Load().base
	following := rotating.Config()
	following.Host = (&url.URL{Scheme: base.Scheme, Host: base.Host}).String()
	return following, &KubeconfigReloader{
		connection: c, component: component, rotating: rotating, address: config.Host, content: content, interval: reloadInterval,
	}, nil
}

// NeedLeaderElection is false: a standby replica must be able to take part in leader election.
func (r *KubeconfigReloader) NeedLeaderElection() bool { return false }

// Start follows the file until ctx ends. It does not use a kubeconfig that fails, and tries it again later.
func (r *KubeconfigReloader) Start(ctx context.Context) error {
	log := r.Log.WithValues("kubeconfig", r.connection.Kubeconfig)
	var lastError string
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		changed, err := r.reload(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil && err.Error() != lastError:
			lastError = err.Error()
			log.Error(err, "Rejected a new kubeconfig; keeping the previous one")
		case changed:
			lastError = ""
			log.Info("Loaded a new kubeconfig")
		}
	}, r.interval)
	return nil
}

func (r *KubeconfigReloader) reload(ctx context.Context) (bool, error) {
	content, err := os.ReadFile(r.connection.Kubeconfig)
	if err != nil || bytes.Equal(content, r.content) {
		return false, err
	}
	config, err := r.connection.Config(r.component)
	if err != nil {
		return false, err
	}
	if config.Host != r.address {
		return false, fmt.Errorf("it leads to %s instead of %s, which may be another cluster: restart this process to use it", config.Host, r.address)
	}
	trial := rest.CopyConfig(config)
	trial.Timeout = connectTimeout
	clientset, err := kubernetes.NewForConfig(trial)
	if err != nil {
		return false, err
	}
	_, err = clientset.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return false, diagnose(config, err)
	}
	if err := r.rotating.Set(config); err != nil {
		return false, err
	}
	r.content = content
	return true, nil
}
