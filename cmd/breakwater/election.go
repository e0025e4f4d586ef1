package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

const (
	// inClusterNamespace is the file in a pod that holds its namespace.
	inClusterNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	defaultNamespace   = webhookconfig.DefaultNamespace
)

// electionFlags are the flags of components whose replicas elect a leader.
type electionFlags struct {
	enabled   bool
	namespace string
}

func (f *electionFlags) bind(flags *pflag.FlagSet) {
	flags.BoolVar(&f.enabled, "leader-elect", true, "elect a leader among the replicas with a Lease; without it, run only one replica")
	flags.StringVar(&f.namespace, "leader-election-namespace", "",
		"`namespace` of the Lease, which must exist (default: the namespace of the pod, otherwise "+defaultNamespace+")")
}

// resolve fills in the namespace and checks that it exists. Without the namespace, the process would wait for leadership forever.
func (f *electionFlags) resolve(ctx context.Context, config *rest.Config) error {
	if !f.enabled {
		return nil
	}
	if f.namespace == "" {
		namespace, err := ownNamespace(inClusterNamespace)
		if err != nil {
			return err
		}
		f.namespace = namespace
	}
	exists, err := hasNamespace(ctx, config, f.namespace)
	if err != nil {
		return fmt.Errorf("--leader-election-namespace %s: %w", f.namespace, err)
	}
	if !exists {
		return fmt.Errorf("--leader-election-namespace %s: %s has no such namespace: create it, set another one, or run a single replica with --leader-elect=false",
			f.namespace, config.Host)
	}
	return nil
}

func hasNamespace(ctx context.Context, config *rest.Config, name string) (bool, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return false, err
	}
	_, err = client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// ownNamespace reads the namespace of the pod. Outside of a pod it returns the default.
func ownNamespace(file string) (string, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return defaultNamespace, nil
	}
	if err != nil {
		return "", fmt.Errorf("read the namespace of the pod: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// configure makes a manager elect a leader with the named Lease. The manager releases the Lease on exit, so that the next replica does not
// wait. That is safe because the process ends with its manager.
func (f *electionFlags) configure(lease string) func(*manager.Options) {
	return func(options *manager.Options) {
		options.LeaderElection = f.enabled
		options.LeaderElectionNamespace = f.namespace
		options.LeaderElectionID = lease
		options.LeaderElectionReleaseOnCancel = true
	}
}

// grantsNamespace returns the namespace that stores grants of large decreases. This is --leader-election-namespace, or the pod's
// namespace; "default" if the latter does not exist, for example outside of a pod.
func (f *electionFlags) grantsNamespace(ctx context.Context, config *rest.Config) (string, error) {
	if f.namespace != "" {
		return f.namespace, nil
	}
	namespace, err := ownNamespace(inClusterNamespace)
	if err != nil {
		return "", err
	}
	exists, err := hasNamespace(ctx, config, namespace)
	switch {
	case err != nil:
		return "", fmt.Errorf("find the namespace for grants of large decreases: %w", err)
	case !exists:
		return metav1.NamespaceDefault, nil
	default:
		return namespace, nil
	}
}
