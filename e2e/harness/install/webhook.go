package install

import (
	"context"
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
)

// webhooks are the replicas that the apiservers of all workers ask, behind one address.
type webhooks struct {
	replicas  []component
	addresses addresses
	balancer  *Balancer
	authority string // PEM file that the apiservers trust them by
	serving   certificate

	certificateFile, keyFile string
}

// newWebhooks makes a certificate and finds addresses.
func (i *Installation) newWebhooks() (*webhooks, error) {
	folder, err := i.folder("webhook")
	if err != nil {
		return nil, err
	}
	hooks := &webhooks{
		authority:       filepath.Join(folder, "ca.crt"),
		certificateFile: filepath.Join(folder, "tls.crt"), keyFile: filepath.Join(folder, "tls.key"),
	}
	if hooks.serving, err = newCertificate(); err != nil {
		return nil, err
	}
	if err := errors.Join(hooks.write(hooks.serving), os.WriteFile(hooks.authority, hooks.serving.authority, 0o600)); err != nil {
		return nil, err
	}
	if hooks.addresses, err = claim(i.options.WebhookReplicas); err != nil {
		return nil, err
	}
	var peers []string
	for _, address := range hooks.addresses.all() {
		peers = append(peers, "--peer="+address)
	}
	for n, address := range hooks.addresses.all() {
		arguments := []string{"webhook", "--listen=" + address, "--tls-cert=" + hooks.certificateFile, "--tls-key=" + hooks.keyFile}
		for _, core := range i.options.Cores {
			arguments = append(arguments, "--core="+core.Name()+"="+i.options.Kubeconfig(WebhookName(n), core))
		}
		if !i.options.CellsByObjects {
			for _, worker := range i.options.Workers {
				arguments = append(arguments, "--cell="+worker.Name()+"="+i.options.Kubeconfig(WebhookName(n), worker))
			}
		}
		arguments = append(append(arguments, "--advertise="+address), peers...)
		if i.options.Scheduling {
			arguments = append(arguments, "--scheduling")
		}
		hooks.replicas = append(hooks.replicas, component{name: WebhookName(n), arguments: arguments})
	}
	if hooks.balancer, err = NewBalancer(hooks.addresses.all); err != nil {
		hooks.addresses.release()
		return nil, err
	}
	return hooks, nil
}

// close ends what apiservers ask, and gives the ports of the replicas up.
func (w *webhooks) close() {
	w.balancer.Close()
	w.addresses.release()
}

// Configure makes all apiservers ask their webhook, and trust it by the authorities that stand in the installation's folder.
func (i *Installation) Configure(ctx context.Context) error {
	for _, worker := range i.options.Workers {
		if err := i.ConfigureWorker(ctx, worker); err != nil {
			return err
		}
	}
	return i.configureCores(ctx)
}

// ConfigureWorker makes a worker's apiserver ask its webhook about removals, and about pods and workloads that are created if scheduling
// policies are heeded. It does some time after this has returned.
func (i *Installation) ConfigureWorker(ctx context.Context, worker federation.Cluster) error {
	err := i.configure(ctx, worker, &admissionregistrationv1.ValidatingWebhookConfiguration{}, "--cell="+worker.Name())
	if err != nil || !i.options.Scheduling {
		return err
	}
	return i.configure(ctx, worker, &admissionregistrationv1.MutatingWebhookConfiguration{}, "--scheduling", "--cell="+worker.Name())
}

// configureCores makes the apiservers of all cores ask their webhook about protectors.
func (i *Installation) configureCores(ctx context.Context) error {
	for _, core := range i.options.Cores {
		if err := i.configure(ctx, core, &admissionregistrationv1.ValidatingWebhookConfiguration{}, "--core="+core.Name()); err != nil {
			return err
		}
	}
	return nil
}

// configure makes a cluster's apiserver ask its webhook, with the configuration that users get, which is of that kind.
func (i *Installation) configure(ctx context.Context, cluster federation.Cluster, configuration client.Object, role ...string) error {
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

// WriteStatic writes the files by which a worker's apiserver asks its webhook about removals without an object in the API.
func (i *Installation) WriteStatic(ctx context.Context, worker federation.Cluster, folder string) error {
	_, err := i.webhookConfig(ctx, "--cell="+worker.Name(), "--static="+folder)
	return err
}

// webhookConfig runs breakwater webhook-config for the installation's webhooks, and returns its output.
func (i *Installation) webhookConfig(ctx context.Context, role ...string) ([]byte, error) {
	arguments := append([]string{"webhook-config", "--url=https://" + i.webhooks.balancer.Outward(), "--ca-bundle=" + i.webhooks.authority}, role...)
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
