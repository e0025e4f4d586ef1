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

// filesEvery is how often a kubeconfig on disk is looked at.
const filesEvery = 5 * time.Second

// Follower lets clients go by the kubeconfig that a file holds now: the credentials and the authority may be replaced while they
// run, as those of a mounted Secret are. The address may not, since another one can be another cluster.
type Follower struct {
	Log logr.Logger

	connection Connection
	component  string
	rotating   *Rotating
	address    string
	content    []byte
	// every is how often the file is looked at.
	every time.Duration
}

// Follow is as Config, and returns what must run beside the clients of the configuration; nil when there is no one file to follow.
func (c Connection) Follow(component string) (*rest.Config, *Follower, error) {
	// Read first: what comes meanwhile is seen as a change.
	var content []byte
	if c.Kubeconfig != "" && c.Kubeconfig != InCluster {
		content, _ = os.ReadFile(c.Kubeconfig) // Config says what is wrong
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

// NeedLeaderElection is false: who stands by must be able to stand for election.
func (f *Follower) NeedLeaderElection() bool { return false }

// Start follows the file until ctx ends. What does not work is not taken up, and looked at again.
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
