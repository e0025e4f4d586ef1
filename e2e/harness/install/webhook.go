package install

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// webhooks are the replicas that the API servers of all workers call, behind one address.
type webhooks struct {
	replicas  []component
	addresses addresses
	balancer  *Balancer
	authority string // PEM file with the authority that the API servers trust
	callerKey string // file with the key of caller tokens; empty without them
}

// newWebhooks creates a certificate and reserves addresses.
func (i *Installation) newWebhooks() (*webhooks, error) {
	folder, err := i.folder("webhook")
	if err != nil {
		return nil, err
	}
	hooks := &webhooks{authority: filepath.Join(folder, "ca.crt")}
	serving, err := newCertificate()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(serving.Write(folder, "tls"), os.WriteFile(hooks.authority, serving.authority, 0o600)); err != nil {
		return nil, err
	}
	if i.options.CallerTokens {
		if err := hooks.createCallerKey(filepath.Join(folder, "callers")); err != nil {
			return nil, err
		}
	}
	if hooks.addresses, err = claimAddresses(i.options.WebhookReplicas); err != nil {
		return nil, err
	}
	var peers []string
	for _, address := range hooks.addresses.all() {
		peers = append(peers, "--peer="+address)
	}
	for n, address := range hooks.addresses.all() {
		arguments := []string{"webhook", "--listen=" + address, "--tls-cert=" + filepath.Join(folder, "tls.crt"), "--tls-key=" + filepath.Join(folder, "tls.key")}
		arguments = append(arguments, i.coreArguments(WebhookName(n))...)
		if !i.options.CellsByObjects {
			for _, worker := range i.options.Workers {
				arguments = append(arguments, "--cell="+worker.Name()+"="+i.options.Kubeconfig(WebhookName(n), worker))
			}
		}
		arguments = append(append(arguments, "--advertise="+address), peers...)
		if i.options.Scheduling {
			arguments = append(arguments, "--scheduling")
		}
		if hooks.callerKey != "" {
			arguments = append(arguments, "--caller-keys="+filepath.Dir(hooks.callerKey))
		}
		hooks.replicas = append(hooks.replicas, component{name: WebhookName(n), arguments: arguments})
	}
	if hooks.balancer, err = NewBalancer(hooks.addresses.all); err != nil {
		hooks.addresses.release()
		return nil, err
	}
	return hooks, nil
}

// createCallerKey creates the key of caller tokens in a folder.
func (w *webhooks) createCallerKey(folder string) error {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	w.callerKey = filepath.Join(folder, webhookconfig.CurrentCallerKey)
	return errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(w.callerKey, key, 0o600))
}

// WebhookAddresses returns the host:port of each webhook, behind the balancer.
func (i *Installation) WebhookAddresses() []string { return i.webhooks.addresses.all() }

// close closes the balancer, and releases the ports of the replicas.
func (w *webhooks) close() {
	w.balancer.Close()
	w.addresses.release()
}

// Configure makes all API servers call their webhook, and trust the authorities in the installation's directory.
func (i *Installation) Configure(ctx context.Context) error {
	for _, worker := range i.options.Workers {
		if err := i.ConfigureWorker(ctx, worker); err != nil {
			return err
		}
	}
	return i.configureCores(ctx)
}

// ConfigureWorker makes a worker's API server call its webhook for removals, and for the creation of pods and workloads if
// Scheduling is set. The API server applies the configuration some time after this returns.
func (i *Installation) ConfigureWorker(ctx context.Context, worker federation.Cluster) error {
	err := i.configure(ctx, worker, &admissionregistrationv1.ValidatingWebhookConfiguration{}, "--cell="+worker.Name())
	if err != nil || !i.options.Scheduling {
		return err
	}
	return i.configure(ctx, worker, &admissionregistrationv1.MutatingWebhookConfiguration{}, "--scheduling", "--cell="+worker.Name())
}

// configureCores makes the API servers of all cores call their webhook for protectors.
func (i *Installation) configureCores(ctx context.Context) error {
	for _, core := range i.options.Cores {
		if err := i.configure(ctx, core, &admissionregistrationv1.ValidatingWebhookConfiguration{}, "--core="+core.Name()); err != nil {
			return err
		}
	}
	return nil
}

// configure makes a cluster's API server call its webhook, with the same configuration that users get. The type of configuration
// selects its kind.
func (i *Installation) configure(ctx context.Context, cluster federation.Cluster, configuration client.Object, role ...string) error {
	if i.webhooks.callerKey != "" {
		role = append(role, "--caller-key="+i.webhooks.callerKey)
	}
	raw, err := i.webhookConfig(ctx, role...)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(raw, configuration); err != nil {
		return fmt.Errorf("read the webhook configuration %s: %w", role, err)
	}
	c, err := Client(cluster)
	if err != nil {
		return err
	}
	wanted := configuration.DeepCopyObject().(client.Object)
	err = c.Create(ctx, wanted)
	if apierrors.IsAlreadyExists(err) {
		if err = c.Get(ctx, client.ObjectKeyFromObject(configuration), wanted); err == nil {
			configuration.SetResourceVersion(wanted.GetResourceVersion())
			err = c.Update(ctx, configuration)
		}
	}
	if err != nil {
		return fmt.Errorf("write the webhook configuration %s: %w", role, err)
	}
	return nil
}

// WriteStatic writes the files for a worker's API server to call its webhook for removals without an API object.
func (i *Installation) WriteStatic(ctx context.Context, worker federation.Cluster, folder string) error {
	_, err := i.webhookConfig(ctx, "--cell="+worker.Name(), "--static="+folder)
	return err
}

// webhookConfig runs breakwater webhook-config for the installation's webhooks, and returns its output.
func (i *Installation) webhookConfig(ctx context.Context, role ...string) ([]byte, error) {
	arguments := append([]string{"webhook-config", "--url=https://" + i.webhooks.balancer.ExternalAddress(), "--ca-bundle=" + i.webhooks.authority}, role...)
	raw, err := exec.CommandContext(ctx, i.options.Program, arguments...).Output()
	if err != nil {
		exit := &exec.ExitError{}
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("breakwater webhook-config %s: %w", role, err)
	}
	return raw, nil
}
