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

// webhookScope says which objects a cell's API server sends to the webhook, and which core clusters they belong to.
type webhookScope struct {
	// cell is empty if no cell is named. All objects then belong to all core clusters.
	cell  string
	cores []string
	// scopes are the scopes of the Cell, by the core clusters that have it.
	scopes map[string]scope.Scope
	// hooks are the webhooks of the cell's API server. readable reports whether they could be read.
	hooks    []admissionregistrationv1.MutatingWebhook
	readable bool
	// exempt are the namespaces that Breakwater's webhook configurations exclude.
	exempt []string
}

func (a *webhookScope) addCell(core string, of *v1alpha1.Cell) error {
	if a.cell == "" || of.Name != a.cell {
		return nil
	}
	cellScope, err := scope.Of(&of.Spec)
	if err != nil {
		return fmt.Errorf("correct or remove the object: %w", err)
	}
	a.scopes[core] = cellScope
	return nil
}

// coresOf returns the core clusters whose Cell includes such pods, or all core clusters if none has the Cell.
func (a *webhookScope) coresOf(namespace string, podLabels map[string]string) (matching []string) {
	if len(a.scopes) == 0 {
		return a.cores
	}
	for _, core := range a.cores {
		if cellScope, ok := a.scopes[core]; ok && cellScope.Has(namespace, podLabels) {
			matching = append(matching, core)
		}
	}
	return matching
}

// skipReason says why the API server does not call the webhook for pods of a namespace, or why the webhook adds nothing to them. It is
// empty otherwise.
func (a *webhookScope) skipReason(namespace string, namespaceLabels, podLabels map[string]string) string {
	switch {
	case len(a.hooks) > 0 && !slices.ContainsFunc(a.hooks, func(hook admissionregistrationv1.MutatingWebhook) bool {
		return selectsNamespace(&hook, namespaceLabels)
	}):
		return fmt.Sprintf("the MutatingWebhookConfiguration of the cell exempts namespace %s", namespace)
	case len(a.hooks) == 0 && slices.Contains(a.exempt, namespace):
		return fmt.Sprintf("namespace %s is exempt according to --exempt-namespaces", namespace)
	case len(a.hooks) == 0 && namespaceLabels[v1alpha1.LabelExempt] == "true":
		return fmt.Sprintf("namespace %s has the label %s=true", namespace, v1alpha1.LabelExempt)
	case len(a.coresOf(namespace, podLabels)) == 0:
		return fmt.Sprintf("Cell %s does not include the pods", a.cell)
	}
	return ""
}

// selectsNamespace reports whether a webhook is called for objects of a namespace.
func selectsNamespace(hook *admissionregistrationv1.MutatingWebhook, namespaceLabels map[string]string) bool {
	if hook.NamespaceSelector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(hook.NamespaceSelector)
	return err == nil && selector.Matches(labels.Set(namespaceLabels))
}

// cellClient returns a client of the cluster of --cell-kubeconfig, and its address.
func (f *explainFlags) cellClient() (clientset kubernetes.Interface, host string, err error) {
	config, err := f.cell.Config("explain")
	if err != nil {
		return nil, "", fmt.Errorf("--cell-kubeconfig: %w", err)
	}
	clientset, err = kubernetes.NewForConfig(config)
	return clientset, config.Host, err
}

// readWebhooks reads the webhooks that the cell's API server calls. If the user may not read them, it returns a note, and the exempt namespaces
// apply.
func (a *webhookScope) readWebhooks(ctx context.Context, f *explainFlags) (notes []string, err error) {
	if !isSet(&f.cell) {
		return nil, nil
	}
	clientset, host, err := f.cellClient()
	if err != nil {
		return nil, err
	}
	found, err := clientset.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		return []string{fmt.Sprintf("cannot determine whether the API server %s calls the webhook: %v", host, err)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--cell-kubeconfig: list MutatingWebhookConfigurations: %w", err)
	}
	a.readable, a.hooks = true, webhookconfig.SchedulingWebhooks(a.cell, found.Items)
	if len(a.hooks) == 0 {
		notes = append(notes, fmt.Sprintf("the API server %s calls no webhook for new pods%s, so that the policies have no effect yet: run breakwater webhook --scheduling, "+
			"and apply the output of breakwater webhook-config --scheduling", host, cellPhrase(a.cell)))
	}
	return notes, nil
}

func cellPhrase(cell string) string {
	if cell == "" {
		return ""
	}
	return " of cell " + cell
}

// missingNotes returns notes about missing information.
func (a *webhookScope) missingNotes() (notes []string) {
	if a.cell != "" && len(a.scopes) == 0 {
		notes = append(notes, fmt.Sprintf("Cell %s does not exist: the explanation assumes that it includes all pods", a.cell))
	}
	return notes
}
