package main

import (
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/scope"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// asking says which objects a cell's API server sends to the webhook, and which core clusters they belong to.
type asking struct {
	// cell is empty if no cell is named. All objects then belong to all core clusters.
	cell  string
	cores []string
	// scopes are the scopes of the Cell, by the core clusters that have it.
	scopes map[string]scope.Scope
	// hooks are the webhooks of the cell's API server. looked reports whether they could be read.
	hooks  []admissionregistrationv1.MutatingWebhook
	looked bool
	// exempt are the namespaces that Breakwater's webhook configurations exclude.
	exempt []string
}

// addCell adds the Cell of a core cluster.
func (a *asking) addCell(core string, of *v1alpha1.Cell) error {
	if a.cell == "" || of.Name != a.cell {
		return nil
	}
	has, err := scope.Of(&of.Spec)
	if err != nil {
		return fmt.Errorf("mend it, or leave it out: %w", err)
	}
	a.scopes[core] = has
	return nil
}

// coresOf returns the core clusters whose Cell includes such pods, or all core clusters if none has the Cell.
func (a *asking) coresOf(namespace string, podLabels map[string]string) (with []string) {
	if len(a.scopes) == 0 {
		return a.cores
	}
	for _, core := range a.cores {
		if has, ok := a.scopes[core]; ok && has.Has(namespace, podLabels) {
			with = append(with, core)
		}
	}
	return with
}

// unasked says why the API server does not call the webhook for pods of a namespace, or why the webhook adds nothing to them. It is
// empty otherwise.
func (a *asking) unasked(namespace string, namespaceLabels, podLabels map[string]string) string {
	switch {
	case len(a.hooks) > 0 && !slices.ContainsFunc(a.hooks, func(hook admissionregistrationv1.MutatingWebhook) bool { return chooses(&hook, namespaceLabels) }):
		return fmt.Sprintf("the MutatingWebhookConfiguration of the cell leaves namespace %s out", namespace)
	case len(a.hooks) == 0 && slices.Contains(a.exempt, namespace):
		return fmt.Sprintf("namespace %s is exempt, as --exempt-namespaces has it", namespace)
	case len(a.hooks) == 0 && namespaceLabels[v1alpha1.LabelExempt] == "true":
		return fmt.Sprintf("namespace %s is labelled %s=true", namespace, v1alpha1.LabelExempt)
	case len(a.coresOf(namespace, podLabels)) == 0:
		return fmt.Sprintf("Cell %s does not have such pods", a.cell)
	}
	return ""
}

// chooses reports whether a webhook is called for objects of a namespace.
func chooses(hook *admissionregistrationv1.MutatingWebhook, namespaceLabels map[string]string) bool {
	if hook.NamespaceSelector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(hook.NamespaceSelector)
	return err == nil && selector.Matches(labels.Set(namespaceLabels))
}

// reachCell returns a client of the cluster of --cell-kubeconfig, and its address.
func (f *explainFlags) reachCell() (of kubernetes.Interface, host string, err error) {
	config, err := f.cell.Config("explain")
	if err != nil {
		return nil, "", fmt.Errorf("--cell-kubeconfig: %w", err)
	}
	of, err = kubernetes.NewForConfig(config)
	return of, config.Host, err
}

// look reads the webhooks that the cell's API server calls. If the user may not read them, it returns a note, and the exempt namespaces
// apply.
func (a *asking) look(ctx context.Context, f *explainFlags) (notes []string, err error) {
	if !isGiven(&f.cell) {
		return nil, nil
	}
	clientset, host, err := f.reachCell()
	if err != nil {
		return nil, err
	}
	found, err := clientset.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		return []string{fmt.Sprintf("whether %s asks the webhook is not known: %v", host, err)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--cell-kubeconfig: list MutatingWebhookConfigurations: %w", err)
	}
	a.looked, a.hooks = true, webhookconfig.Scheduling(a.cell, found.Items)
	if len(a.hooks) == 0 {
		notes = append(notes, fmt.Sprintf("%s asks no webhook about new pods%s, so that nothing of this happens yet: run breakwater webhook --scheduling, "+
			"and apply what breakwater webhook-config --scheduling prints", host, ofCell(a.cell)))
	}
	return notes, nil
}

func ofCell(cell string) string {
	if cell == "" {
		return ""
	}
	return " of cell " + cell
}

// unknown returns notes about missing information.
func (a *asking) unknown() (notes []string) {
	if a.cell != "" && len(a.scopes) == 0 {
		notes = append(notes, fmt.Sprintf("there is no Cell %s to read: all pods are taken for its own", a.cell))
	}
	return notes
}
