// Package live reads the state that an explanation depends on, from the cores and from the cluster of a cell.
package live

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain"
)

// Core is a core cluster.
type Core struct {
	// Name is the name that the webhooks use for the core.
	Name string
	// Host is the address of its API server, for errors.
	Host string
	client.Reader
}

// read reads the Cells of the core and its protectors in the given namespaces.
func (c Core) read(ctx context.Context, namespaces []string) (explain.Core, error) {
	read := explain.Core{Name: c.Name, Cells: map[string]*v1alpha1.Cell{}}
	cells := &v1alpha1.CellList{}
	if err := c.List(ctx, cells); err != nil {
		return read, fmt.Errorf("list Cells of core cluster %q: %w", c.Name, err)
	}
	for i := range cells.Items {
		read.Cells[cells.Items[i].Name] = &cells.Items[i]
	}
	for _, namespace := range namespaces {
		protectors := &v1alpha1.PodProtectorList{}
		if err := c.List(ctx, protectors, client.InNamespace(namespace)); err != nil {
			return read, fmt.Errorf("list PodProtectors of core cluster %q: %w", c.Name, err)
		}
		for i := range protectors.Items {
			read.Protectors = append(read.Protectors, &protectors.Items[i])
		}
	}
	return read, nil
}

// Cluster is the cluster of a cell.
type Cluster struct {
	// Cell is empty if it is unknown which cells the cluster has.
	Cell   string
	Client kubernetes.Interface
	nodes  metadata.Interface
	// shares reads the shares of the cell.
	shares client.Reader
}

// NewCluster creates the clients for the cluster of a cell.
func NewCluster(cell string, config *rest.Config) (*Cluster, error) {
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	nodes, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	shares, err := client.New(config, client.Options{Scheme: clusters.Scheme()})
	return &Cluster{Cell: cell, Client: c, nodes: nodes, shares: shares}, err
}

// NewSituation builds the situation of a pod.
func NewSituation(cores []explain.Core, cell string, pod *corev1.Pod, node explain.Node, operation v1alpha1.Operation,
	hooks []webhookconfig.Hook) explain.Situation {
	s := explain.Situation{Now: time.Now(), Cell: cell, Request: explain.Request(pod, operation), Hooks: hooks, Cells: map[string]map[string]*v1alpha1.Cell{}}
	s.Covering, s.Belongs, s.CoveringErr = explain.Covering(cores, cell, pod, node)
	for _, core := range cores {
		s.Cells[core.Name] = core.Cells
		for _, p := range core.Protectors {
			if p.Namespace == pod.Namespace && quota.HasShare(p, cell) {
				s.ShareOwners = append(s.ShareOwners, p)
			}
		}
	}
	return s
}

// Node reads the labels of a node, as the webhook does.
func (c *Cluster) Node(ctx context.Context, name string) explain.Node {
	if name == "" {
		return explain.Node{Err: errors.New("there is none")}
	}
	node, err := c.nodes.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return explain.Node{Err: err}
	}
	return explain.Node{Labels: node.Labels}
}

// Hooks returns the webhooks that the cluster's API server may call for an operation in a namespace. It returns an error if the cell is unknown.
func (c *Cluster) Hooks(ctx context.Context, namespace string, operation v1alpha1.Operation) ([]webhookconfig.Hook, error) {
	if c.Cell == "" {
		return nil, errors.New("the cell is unknown")
	}
	in, err := c.Client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	configurations, err := c.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return webhookconfig.Hooks(c.Cell, operation, in.Labels, configurations.Items), nil
}

// DryRun sends a dry run of a removal to the cluster's API server and returns its answer.
func (c *Cluster) DryRun(ctx context.Context, namespace, name string, operation v1alpha1.Operation) error {
	dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	switch operation {
	case v1alpha1.OperationDelete:
		return c.Client.CoreV1().Pods(namespace).Delete(ctx, name, dry)
	case v1alpha1.OperationEvict:
		return c.Client.PolicyV1().Evictions(namespace).Evict(ctx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, DeleteOptions: &dry,
		})
	case v1alpha1.OperationRelabel:
		return c.dryRunUnlabel(ctx, namespace, name)
	default:
		return c.dryRunChange(ctx, namespace, name, operation)
	}
}

// RecordAnswer records the answer of the API server in an explanation. It returns dryRunErr if that is not an API status, and if it does not come from
// admission while the explanation IsUnknown: the answer is then the only verdict, and a missing permission or pod is none.
func RecordAnswer(e *explain.Explanation, dryRunErr error) error {
	status := apierrors.APIStatus(nil)
	answer := &explain.Answer{Allowed: dryRunErr == nil}
	switch {
	case dryRunErr == nil:
		answer.Agrees = e.IsAdmitted() // false if it is unknown
	case e.IsUnknown() && !isOfAdmission(dryRunErr):
		return dryRunErr
	case errors.As(dryRunErr, &status):
		answer.Code, answer.Message = status.Status().Code, status.Status().Message
		answer.OfBudget = removal.IsDisruptionBudgetDenial(dryRunErr)
		answer.Agrees = answer.OfBudget && e.IsAdmitted() || !answer.OfBudget && !e.IsAdmitted() && answer.Code == e.Code &&
			strings.HasSuffix(answer.Message, e.Message)
	default:
		return dryRunErr
	}
	e.Answer = answer
	return nil
}

// isOfAdmission reports whether a webhook denied a dry run or could not be called, or a PodDisruptionBudget denied it.
func isOfAdmission(dryRunErr error) bool {
	return removal.IsDisruptionBudgetDenial(dryRunErr) || strings.Contains(dryRunErr.Error(), "admission webhook ") ||
		strings.Contains(dryRunErr.Error(), "failed calling webhook ")
}
