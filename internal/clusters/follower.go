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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// filesEvery is how often a follower reads its kubeconfig from disk.
const filesEvery = 5 * time.Second

// Follower makes clients use the current content of a kubeconfig file. The credentials and the certificate authority may be replaced while
// the clients run, as those of a mounted Secret are. The address may not change, since another address can be another cluster.
type Follower struct {
	Log logr.Logger

	connection Connection
	component  string
	rotating   *Rotating
	address    string
	content    []byte
	// every is how often the follower reads the file.
	every time.Duration
}

// Follow is like Config, but also returns a Follower that must run beside the clients. It is nil when there is no single file to follow.
func (c Connection) Follow(component string) (*rest.Config, *Follower, error) {
	// Read the file first, so that a later change is detected.
	var content []byte
	if c.Kubeconfig != "" && c.Kubeconfig != InCluster {
		content, _ = os.ReadFile(c.Kubeconfig) // Config reports the error
	}
	config, err := c.Config(component)
	if err != nil || content == nil {
		return config, nil, err
	}
	rotating, err := NewRotating(config)
	if err != nil {
		return nil, nil, fmt.Errorf("kubeconfig %q: %w", c.Kubeconfig, err)
	}
	base := rotating.current.Load().base
	following := rotating.Config()
	following.Host = (&url.URL{Scheme: base.Scheme, Host: base.Host}).String()
	return following, &Follower{
		connection: c, component: component, rotating: rotating, address: config.Host, content: content, every: filesEvery,
	}, nil
}

// NeedLeaderElection is false: a standby replica must be able to take part in leader election.
func (f *Follower) NeedLeaderElection() bool { return false }

// Start follows the file until ctx ends. It does not use a kubeconfig that fails, and tries it again later.
func (f *Follower) Start(ctx context.Context) error {
	log := f.Log.WithValues("kubeconfig", f.connection.Kubeconfig)
	every := time.NewTicker(f.every)
	defer every.Stop()
	var told string
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
		changed, err := f.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && err.Error() != told:
			told = err.Error()
			log.Error(err, "A new kubeconfig is not taken up, and the one before stays in use")
		case changed:
			told = ""
			log.Info("A new kubeconfig is in use")
		}
	}
}

func (f *Follower) look(ctx context.Context) (bool, error) {
	content, err := os.ReadFile(f.connection.Kubeconfig)
	if err != nil || bytes.Equal(content, f.content) {
		return false, err
	}
	config, err := f.connection.Config(f.component)
	if err != nil {
		return false, err
	}
	if config.Host != f.address {
		return false, fmt.Errorf("it leads to %s in place of %s, which can be another cluster: restart this process to go there", config.Host, f.address)
	}
	trial := rest.CopyConfig(config)
	trial.Timeout = connectTime
	clientset, err := kubernetes.NewForConfig(trial)
	if err != nil {
		return false, err
	}
	_, err = clientset.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return false, diagnose(config, err)
	}
	if err := f.rotating.Set(config); err != nil {
		return false, err
	}
	f.content = content
	return true, nil
}
