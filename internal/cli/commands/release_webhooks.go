package commands

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// ReleaseWithWebhooks creates the release command of a program that names its cluster by flags. With --webhooks-of the cluster can also be a worker.
func ReleaseWithWebhooks(program string, cluster Cluster) *cobra.Command {
	command, f := newRelease(program, cluster)
	command.Long += `

With --webhooks-of the command also finds webhook configurations of these cells, by the paths of their webhooks. It leaves those of a Helm release,
and those whose Service exists. Any other stays when Breakwater is uninstalled, and the API server then denies all removals of pods. With --yes the
command deletes them. Without --namespace and --all-namespaces it does nothing else.`
	command.Example += "\n  " + program + ` release --webhooks-of worker-1 --yes           # delete webhook configurations that outlived Breakwater`
	command.Flags().StringSliceVar(&f.webhooksOf, "webhooks-of", nil,
		"also webhook configurations of these `cells` that no release owns and whose Service does not exist")
	return command
}

// unownedConfiguration is a webhook configuration that no release deletes.
type unownedConfiguration struct {
	kind   string
	object metav1.Object
	hooks  []admissionregistrationv1.WebhookClientConfig
	remove func(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// releaseWebhooks lists the webhook configurations of cells that outlived Breakwater, and deletes them if the user confirmed.
func (f *releaseFlags) releaseWebhooks(ctx context.Context, out io.Writer, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	found, err := f.unownedConfigurations(ctx, client)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		_, err := fmt.Fprintln(out, "No webhook configuration has outlived Breakwater.")
		return err
	}
	for _, c := range found {
		name, done := c.object.GetName(), "would delete"
		if f.yes {
			uid, version := c.object.GetUID(), c.object.GetResourceVersion()
			err := c.remove(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete %s %s: %w", c.kind, name, err)
			}
			done = "deleted"
		}
		if _, err := fmt.Fprintln(out, done, c.kind, name); err != nil {
			return err
		}
	}
	if !f.yes {
		_, err = fmt.Fprintln(out, "Nothing was changed. Add --yes to delete these webhook configurations.")
	}
	return err
}

func (f *releaseFlags) unownedConfigurations(ctx context.Context, client kubernetes.Interface) (found []unownedConfiguration, err error) {
	registration := client.AdmissionregistrationV1()
	validating, err := registration.ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	mutating, err := registration.MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := make([]unownedConfiguration, 0, len(validating.Items)+len(mutating.Items))
	for i := range validating.Items {
		c := unownedConfiguration{"ValidatingWebhookConfiguration", &validating.Items[i], nil, registration.ValidatingWebhookConfigurations().Delete}
		for j := range validating.Items[i].Webhooks {
			c.hooks = append(c.hooks, validating.Items[i].Webhooks[j].ClientConfig)
		}
		all = append(all, c)
	}
	for i := range mutating.Items {
		c := unownedConfiguration{"MutatingWebhookConfiguration", &mutating.Items[i], nil, registration.MutatingWebhookConfigurations().Delete}
		for j := range mutating.Items[i].Webhooks {
			c.hooks = append(c.hooks, mutating.Items[i].Webhooks[j].ClientConfig)
		}
		all = append(all, c)
	}
	for _, c := range all {
		if !webhookconfig.IsUnowned(c.object, c.hooks, f.webhooksOf) {
			continue
		}
		isServed, err := anyServiceExists(ctx, client, c.hooks)
		if err != nil {
			return nil, err
		}
		if !isServed {
			found = append(found, c)
		}
	}
	return found, nil
}

// anyServiceExists reports whether a Service of webhooks exists: another installation may answer there. An address that is no Service cannot be
// checked, and counts as unreachable.
func anyServiceExists(ctx context.Context, client kubernetes.Interface, hooks []admissionregistrationv1.WebhookClientConfig) (bool, error) {
	for _, hook := range hooks {
		if hook.Service == nil {
			continue
		}
		switch _, err := client.CoreV1().Services(hook.Service.Namespace).Get(ctx, hook.Service.Name, metav1.GetOptions{}); {
		case err == nil:
			return true, nil
		case !apierrors.IsNotFound(err):
			return false, fmt.Errorf("get Service %s/%s of a webhook: %w", hook.Service.Namespace, hook.Service.Name, err)
		}
	}
	return false, nil
}
