package provider

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/breakwater-k8s/breakwater/terraform-provider/connection"
	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
	"github.com/breakwater-k8s/breakwater/terraform-provider/transport"
)

const kubeconfigAttribute = "kubeconfig_wo"

func kubeconfigAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		kubeconfigAttribute: schema.StringAttribute{
			Optional: true, Sensitive: true, WriteOnly: true,
			MarkdownDescription: "A kubeconfig of the cell's cluster. The provider writes it only into the Secret that `kubeconfig_secret_ref` names, " +
				"neither into the state nor into a plan. If it is not set, create the Secret by other means. Needs Terraform 1.11 or OpenTofu 1.11.",
			Validators: []validator.String{stringvalidator.AlsoRequires(path.MatchRoot("kubeconfig_secret_ref"))},
		},
		"kubeconfig_wo_version": schema.NumberAttribute{
			Optional: true,
			MarkdownDescription: "Increase it to write `kubeconfig_wo` again: Terraform cannot detect that it changed. " +
				"It is also written whenever the Cell itself changes.",
		},
	}
}

// validateKubeconfig rejects a value that is not a kubeconfig.
func validateKubeconfig(ctx context.Context, config *tfsdk.Config, d *diag.Diagnostics) {
	var given types.String
	at := path.Root(kubeconfigAttribute)
	if d.Append(config.GetAttribute(ctx, at, &given)...); given.IsNull() || given.IsUnknown() {
		return
	}
	kubeconfig, err := clientcmd.Load([]byte(given.ValueString()))
	if err != nil || kubeconfig.Contexts[kubeconfig.CurrentContext] == nil {
		// The parser's error can contain the text that it could not parse.
		d.AddAttributeError(at, "Not a kubeconfig", "It must be the text of a kubeconfig, whose current-context is one of its contexts.")
	}
}

// secretOf returns the namespace, name and key of the Secret that a Cell refers to.
func secretOf(w *desired) (namespace, name, key string) {
	ref, _, _ := unstructured.NestedStringMap(w.object.Object, "spec", "kubeconfigSecretRef")
	return ref["namespace"], ref["name"], ref["key"]
}

func (c *cluster) secrets(namespace string) dynamic.ResourceInterface {
	return c.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace)
}

// writeKubeconfig writes the configured kubeconfig before the Cell that refers to it. It reports whether the apply may continue.
func (t *task) writeKubeconfig(ctx context.Context, d *diag.Diagnostics) bool {
	var given types.String
	d.Append(t.config.GetAttribute(ctx, path.Root(kubeconfigAttribute), &given)...)
	namespace, name, key := secretOf(t.want)
	if t.before != nil {
		if ns, n, k := secretOf(t.before); n != "" && (ns != namespace || n != name || k != key) {
			t.clearKubeconfig(ctx, ns, n, k, d)
		}
	}
	if given.IsNull() || d.HasError() {
		return !d.HasError()
	}
	secret := secretObject(namespace, name)
	secret.Object["data"] = map[string]any{key: base64.StdEncoding.EncodeToString([]byte(given.ValueString()))}
	secret.Object["type"] = string(corev1.SecretTypeOpaque)
	err := transport.Retry(ctx, func(ctx context.Context) error {
		_, err := t.cluster.secrets(namespace).Apply(ctx, name, secret, metav1.ApplyOptions{FieldManager: connection.DefaultFieldManager, Force: t.takeover.force})
		return err
	})
	if err != nil && !addOutage(d, err) {
		d.AddAttributeError(path.Root(kubeconfigAttribute), "Secret could not be written", fmt.Sprintf("Secret %s/%s: %s", namespace, name, sentence(err.Error())))
	}
	return err == nil
}

func secretObject(namespace, name string) *unstructured.Unstructured {
	secret := &unstructured.Unstructured{Object: map[string]any{}}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	secret.SetNamespace(namespace)
	secret.SetName(name)
	return secret
}

// clearKubeconfig removes a kubeconfig from a Secret, and deletes the Secret if no other client has written to it. It leaves a
// Secret that Terraform has not written.
func (o *object) clearKubeconfig(ctx context.Context, namespace, name, key string, d *diag.Diagnostics) {
	err := transport.Retry(ctx, func(ctx context.Context) error {
		secret, err := o.cluster.secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !shape.Owns(secret.GetManagedFields(), connection.DefaultFieldManager, "data", key) {
			return nil
		}
		for _, entry := range secret.GetManagedFields() {
			if entry.Manager != connection.DefaultFieldManager {
				_, err := o.cluster.secrets(namespace).Apply(ctx, name, secretObject(namespace, name), metav1.ApplyOptions{FieldManager: connection.DefaultFieldManager})
				return err
			}
		}
		version := secret.GetResourceVersion()
		return o.cluster.secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
	})
	// A user without rights to Secrets has not written one either.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		d.AddWarning("The kubeconfig in a Secret stays", fmt.Sprintf("Delete Secret %s/%s manually: %s", namespace, name, sentence(err.Error())))
	}
}
