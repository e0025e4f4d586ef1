package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// coreReferences are the core clusters that a worker names.
type coreReferences struct {
	all       []clusters.NamedCoreReference
	namespace string
	// err says why there may be others.
	err error
}

// String returns the name of the ConfigMap.
func (r coreReferences) String() string {
	return "ConfigMap " + r.namespace + "/" + clusters.CoreReferences
}

// currentCore returns the current context as the core cluster if it is one. Otherwise it returns the contexts of the cores that the cluster of the
// current context names, or the one that has a Cell for that cluster. A worker with shares serves Cells as well. Its protectors are only the shares, so
// that commands would show other pods as unprotected.
func (c *ClusterFinder) currentCore(ctx context.Context) ([]Core, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Limit())
	defer cancel()
	config, err := c.CurrentConfig()
	if err != nil {
		return nil, err
	}
	var serves bool
	var named coreReferences
	RunConcurrently(
		func() { serves, err = servesCells(ctx, config) },
		func() { named = readCoreReferences(ctx, config) },
	)
	if err != nil {
		return nil, fmt.Errorf("check whether the current context is a core cluster: %w", WithRemedy(config, err))
	}
	switch {
	case serves && len(named.all) > 0:
		return c.currentOrNamedCores(ctx, config, named)
	case serves:
		return onlyCore(config)
	case len(named.all) > 0:
		return c.namedCores(ctx, named)
	default:
		return c.coreWithCell(ctx, config, named.err)
	}
}

// currentOrNamedCores returns the cores that the cluster of the current context names, unless one of its Cells has a kubeconfig: copies of Cells in a
// worker with shares have none. It also returns them if the user may not list Cells.
func (c *ClusterFinder) currentOrNamedCores(ctx context.Context, config *rest.Config, named coreReferences) ([]Core, error) {
	here, err := onlyCore(config)
	if err != nil {
		return nil, err
	}
	cells, err := ReadAll[v1alpha1.Cell](ctx, here[0], &v1alpha1.CellList{})
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("check whether the current context is a core cluster: %w", WithRemedy(config, err))
	}
	if !slices.ContainsFunc(cells, func(cell v1alpha1.Cell) bool { return cell.Spec.KubeconfigSecretRef != nil }) {
		return c.namedCores(ctx, named)
	}
	for _, other := range named.all {
		c.reportCore(c.CurrentContext(), "which has Cells of other clusters; %s also names core %s (%s)", named, other.Name, strings.Join(other.Servers, ", "))
	}
	return here, nil
}

// readCoreReferences reads the ConfigMap that join writes, in the default namespace, or else in those of the webhooks' Services.
func readCoreReferences(ctx context.Context, config *rest.Config) coreReferences {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return coreReferences{err: err}
	}
	found := readCoreReferencesIn(ctx, clientset, webhookconfig.DefaultNamespace)
	if found.err == nil {
		return found
	}
	configurations, err := WebhookConfigurations(ctx, config)
	if err != nil {
		return found
	}
	for i := range configurations {
		for j := range configurations[i].Webhooks {
			service := configurations[i].Webhooks[j].ClientConfig.Service
			if service == nil || service.Namespace == webhookconfig.DefaultNamespace || len(webhookconfig.CellNames(configurations[i:i+1])) == 0 {
				continue
			}
			if other := readCoreReferencesIn(ctx, clientset, service.Namespace); other.err == nil {
				return other
			}
		}
	}
	return found
}

func readCoreReferencesIn(ctx context.Context, clientset kubernetes.Interface, namespace string) coreReferences {
	object, err := clientset.CoreV1().ConfigMaps(namespace).Get(ctx, clusters.CoreReferences, metav1.GetOptions{})
	if err != nil {
		return coreReferences{err: err}
	}
	all, err := clusters.ParseCoreReferences(object.Data)
	return coreReferences{all, namespace, err}
}

// namedCores returns the contexts of the cores that a worker names.
func (c *ClusterFinder) namedCores(ctx context.Context, named coreReferences) (all []Core, err error) {
	for _, reference := range named.all {
		found, err := c.contextOf(ctx, reference)
		if err != nil {
			return nil, fmt.Errorf("%s is a worker of core %s, as %s says: %w", c.CurrentContext(), reference.Name, named, err)
		}
		name := reference.Name
		if len(named.all) == 1 {
			name = ""
		}
		one, err := c.coreOfContext(found, name)
		if err != nil {
			return nil, err
		}
		c.reportCore(fmt.Sprintf("context %q", found), "named by %s", named)
		all = append(all, one)
	}
	return all, nil
}

// contextOf returns the context that leads to a core: by its URL, or else by the UID of kube-system.
func (c *ClusterFinder) contextOf(ctx context.Context, reference clusters.NamedCoreReference) (string, error) {
	others, err := c.otherContexts()
	if err != nil {
		return "", err
	}
	matching := slices.DeleteFunc(slices.Clone(others), func(o otherContext) bool {
		return !slices.ContainsFunc(reference.Servers, func(server string) bool { return strings.TrimSuffix(server, "/") == o.server })
	})
	var skipped []string
	if len(matching) == 0 {
		matching, skipped = c.probe(ctx, others, reference.Context, func(ctx context.Context, config *rest.Config) bool {
			clientset, err := kubernetes.NewForConfig(config)
			if err != nil {
				return false
			}
			uid, err := clusters.ClusterOf(ctx, clientset)
			return err == nil && uid == reference.Cluster
		})
	}
	if len(matching) == 0 {
		hint := ""
		if reference.Context != "" {
			hint = fmt.Sprintf("; its administrator calls it %q", reference.Context)
		}
		return "", fmt.Errorf("no context of your kubeconfig leads to %s%s: set --core-context CONTEXT or --core-kubeconfig FILE%s",
			strings.Join(reference.Servers, " or "), hint, skippedText(skipped))
	}
	return chosenContext(matching, reference.Context)
}

// coreWithCell returns the only other context that has a Cell for the cluster of the current context. Another core would show, and change, the
// protectors of other pods.
func (c *ClusterFinder) coreWithCell(ctx context.Context, config *rest.Config, referencesErr error) ([]Core, error) {
	others, err := c.otherContexts()
	if err != nil {
		return nil, err
	}
	matching, skipped, err := c.contextsWithCell(ctx, config, others)
	if err == nil && len(matching) > 0 {
		found, err := chosenContext(matching, "")
		if err != nil {
			return nil, fmt.Errorf("several contexts have a Cell for the cluster of %s: %w", c.CurrentContext(), err)
		}
		c.reportCore(fmt.Sprintf("context %q", found), "which has a Cell for the cluster of %s", c.CurrentContext())
		one, err := c.coreOfContext(found, "")
		return []Core{one}, err
	}
	reason := ""
	if apierrors.IsForbidden(referencesErr) || err != nil {
		reason = fmt.Sprintf(" (%v)", errors.Join(referencesErr, err))
	}
	return nil, fmt.Errorf("%s is not a core cluster of Breakwater: it does not serve Cells (%s), and does not name its core%s. Select the core cluster "+
		"with --core-context CONTEXT (or BREAKWATER_CORE_CONTEXT), --core-kubeconfig FILE, or --core NAME=KUBECONFIG for each of several%s",
		c.CurrentContext(), v1alpha1.GroupVersion, reason, skippedText(skipped))
}

func (c *ClusterFinder) contextsWithCell(
	ctx context.Context, config *rest.Config, others []otherContext,
) (matching []otherContext, skipped []string, err error) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil || len(others) == 0 {
		return nil, nil, err
	}
	uid, err := clusters.ClusterOf(ctx, clientset)
	if err != nil {
		return nil, nil, fmt.Errorf("identify the cluster of %s: %w", c.CurrentContext(), err)
	}
	matching, skipped = c.probe(ctx, others, "", func(ctx context.Context, config *rest.Config) bool {
		if serves, err := servesCells(ctx, config); err != nil || !serves {
			return false
		}
		one, err := newCore("", config)
		if err != nil {
			return false
		}
		cells, err := ReadAll[v1alpha1.Cell](ctx, one, &v1alpha1.CellList{})
		return err == nil && slices.ContainsFunc(cells, func(cell v1alpha1.Cell) bool { return cell.Status.Cluster == uid })
	})
	return matching, skipped, nil
}

func (c *ClusterFinder) coreOfContext(kubeContext, name string) (Core, error) {
	config, err := c.configFor("", kubeContext)
	if err != nil {
		return Core{}, fmt.Errorf("core cluster of context %q: %w", kubeContext, err)
	}
	return newCore(name, config)
}

func (c *ClusterFinder) reportCore(which, format string, arguments ...any) {
	if c.Report != nil {
		c.Report("core: %s, %s", which, fmt.Sprintf(format, arguments...))
	}
}
