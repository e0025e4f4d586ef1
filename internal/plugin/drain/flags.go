package drain

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
	"github.com/breakwater-k8s/breakwater/internal/plugin/drain/waves"
)

// drainFlags are the flags of kubectl drain, with its defaults.
type drainFlags struct {
	waves.Filter
	disableEviction bool
	podSelector     string
	gracePeriod     int
	timeout         time.Duration
}

func (f *drainFlags) bind(command *cobra.Command) {
	flags := command.Flags()
	flags.BoolVar(&f.Force, "force", false, "like kubectl drain: remove pods without a controller, which are not recreated")
	flags.BoolVar(&f.DeleteEmptyDirData, "delete-emptydir-data", false, "like kubectl drain: remove pods with emptyDir volumes")
	flags.BoolVar(&f.IgnoreDaemonSets, "ignore-daemonsets", false, "like kubectl drain: leave pods of DaemonSets, instead of aborting")
	flags.BoolVar(&f.disableEviction, "disable-eviction", false, "like kubectl drain: delete pods, not evict them; the first denial ends the drain of a node")
	flags.StringVar(&f.podSelector, "pod-selector", "", "like kubectl drain: only pods with these `labels`")
	flags.IntVar(&f.gracePeriod, "grace-period", -1,
		"like kubectl drain: `seconds` for a pod to terminate. A StatefulSet replaces a pod only afterwards; negative: not included")
	flags.DurationVar(&f.timeout, "timeout", 0, "like kubectl drain: `time` after which the drain of a node ends; 0: no limit")
}

func (f *drainFlags) operation() v1alpha1.Operation {
	if f.disableEviction {
		return v1alpha1.OperationDelete
	}
	return v1alpha1.OperationEvict
}

// delay adds the time to terminate to the time until the replacement of a pod of a StatefulSet is available.
func (f *drainFlags) delay(all []waves.Pod) {
	for i := range all {
		if owner := metav1.GetControllerOf(all[i].Request.Pod); owner != nil && owner.Kind == "StatefulSet" && f.gracePeriod > 0 {
			all[i].ReplacementTime += time.Duration(f.gracePeriod) * time.Second
		}
	}
}

// nodePods are the pods of a node, as kubectl drain selects them.
type nodePods struct {
	pods    []corev1.Pod
	leftOut []leftOut
	aborts  []waves.Abort
}

// podsOf returns the pods of a node that a drain removes: none if it aborts.
func (f *drainFlags) podsOf(ctx context.Context, at plugin.CellAccess, node string) (found nodePods, err error) {
	selector, err := labels.Parse(f.podSelector)
	if err != nil {
		return found, fmt.Errorf("--pod-selector: %w", err)
	}
	if _, err := at.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{}); err != nil {
		return found, plugin.WithRemedy(at.Config, fmt.Errorf("read node %q: %w", node, err))
	}
	list, err := at.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{
		LabelSelector: selector.String(), FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return found, plugin.WithRemedy(at.Config, fmt.Errorf("list the pods of node %q: %w", node, err))
	}
	for i := range list.Items {
		pod := &list.Items[i]
		name := pod.Namespace + "/" + pod.Name
		left, abort := f.Apply(pod, isOrphaned(ctx, at, pod))
		switch {
		case abort != "":
			found.aborts = waves.AddAbort(found.aborts, node, abort, name)
		case left != "":
			found.leftOut = append(found.leftOut, leftOut{name, node, left})
		default:
			found.pods = append(found.pods, *pod)
		}
	}
	if len(found.aborts) > 0 {
		found.pods = nil
	}
	return found, nil
}

// isOrphaned reports whether the DaemonSet of a pod does not exist. A user who may not read it cannot know.
func isOrphaned(ctx context.Context, at plugin.CellAccess, pod *corev1.Pod) bool {
	name := waves.DaemonSetOf(pod)
	if name == "" {
		return false
	}
	_, err := at.Client.AppsV1().DaemonSets(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}
