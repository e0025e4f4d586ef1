// Package adopt contains the command adopt.
package adopt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/clusters/successor"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/succession"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
)

type adoptFlags struct {
	*plugin.Plugin
	plugin.Output
	cell string
	yes  bool
}

// orphan is a pod whose controller was deleted, or is being deleted. Its JSON form is stable.
type orphan struct {
	Pod string `json:"pod"`
	// Controller is the controller as KIND/NAME, and ControllerUID the UID that the pod names.
	Controller    string    `json:"controller"`
	ControllerUID types.UID `json:"controllerUID"`
	// Successor is the UID of the object that has the name of the controller now; empty if there is none.
	Successor types.UID           `json:"successor,omitempty"`
	Decision  succession.Decision `json:"decision"`
	// Message describes the decision.
	Message string `json:"message"`

	pod *corev1.Pod
}

// orphanList is the JSON form of orphans.
type orphanList struct {
	Orphans []orphan `json:"orphans"`
}

// Command returns the command adopt.
func Command(p *plugin.Plugin) *cobra.Command {
	f := &adoptFlags{Plugin: p}
	command := &cobra.Command{
		Use:   "adopt [[KIND/]NAME]",
		Short: "Release pods of a deleted controller to the one that was created again",
		Long: `Lists the pods of a namespace whose controller was deleted, or is being deleted, and with --yes releases those that another controller of the
same kind and name selects: the command removes the reference to the deleted controller, and the new one adopts the pods. Without this a
StatefulSet that was deleted and applied again does not recover while a floor keeps its old pods: it cannot adopt them, and cannot create pods of
their names. With a name, only pods of that controller are listed. The controller of the pods of a Deployment is a ReplicaSet.

The webhook does the same by itself, within 30 seconds, for pods whose removal it denied to the garbage collector (--nudge). No pod is removed.`,
		Example: `  kubectl breakwater adopt -n shop                      # list
  kubectl breakwater adopt -n shop StatefulSet/db --yes`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, names []string) error { return f.run(command.Context(), names) },
	}
	f.Output.Bind(command)
	command.Flags().BoolVarP(&f.yes, "yes", "y", false, "release the pods; without it nothing is changed")
	p.BindCell(command, &f.cell)
	return command
}

func (f *adoptFlags) run(ctx context.Context, names []string) error {
	if err := f.Check(); err != nil {
		return err
	}
	namespace, err := f.Clusters.Namespace()
	if err != nil {
		return err
	}
	config, err := f.config(ctx)
	if err != nil {
		return err
	}
	cluster, err := successor.NewCluster(config)
	if err != nil {
		return err
	}
	found, failed := findOrphans(ctx, cluster, namespace, strings.Join(names, ""))
	failed = plugin.WithRemedy(config, failed)
	if len(found) == 0 {
		if failed == nil {
			_, _ = fmt.Fprintf(f.ErrOut, "No pod in namespace %s has a controller that was deleted.\n", namespace)
		}
		return failed
	}
	if err := plugin.Write(&f.Output, f.Out, orphanList{found}, func(l orphanList) string { return orphanTable(l.Orphans).Text() }); err != nil {
		return err
	}
	return errors.Join(failed, plugin.WithRemedy(config, f.release(ctx, cluster, found)))
}

// config returns the client configuration of the cell's cluster. Without --cell it needs no core.
func (f *adoptFlags) config(ctx context.Context) (*rest.Config, error) {
	if f.cell == "" {
		return f.Clusters.CurrentConfig()
	}
	at, err := f.Clusters.Cell(ctx, f.cell, f.Clusters.StartCores(ctx))
	return at.Config, err
}

// release releases the pods that can be, if --yes is set.
func (f *adoptFlags) release(ctx context.Context, cluster *successor.Cluster, found []orphan) error {
	found = slices.DeleteFunc(found, func(o orphan) bool { return o.Decision != succession.Release })
	if !f.yes {
		if len(found) > 0 {
			_, _ = fmt.Fprintf(f.ErrOut, "Nothing was changed. Add --yes to release %s.\n", printable.Count(len(found), "pod"))
		}
		return nil
	}
	var failed []error
	for i := range found {
		if err := cluster.Release(ctx, found[i].pod, "kubectl-breakwater"); err != nil {
			failed = append(failed, fmt.Errorf("release pod %s: %w", found[i].Pod, err))
			continue
		}
		_, _ = fmt.Fprintf(f.ErrOut, "pod/%s is released to %s\n", found[i].Pod, found[i].Controller)
	}
	return errors.Join(failed...)
}

// findOrphans returns the pods of a namespace whose controller was deleted or is being deleted. name restricts it to a controller, as KIND/NAME or
// NAME. If some controllers cannot be read, it returns the pods of the others with the error.
func findOrphans(ctx context.Context, cluster *successor.Cluster, namespace, name string) (all []orphan, err error) {
	list, err := cluster.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods of namespace %q: %w", namespace, err)
	}
	type result struct {
		named *succession.Object
		err   error
	}
	read, failed := map[types.UID]result{}, []error{}
	for i := range list.Items {
		pod := &list.Items[i]
		controller := metav1.GetControllerOf(pod)
		if controller == nil || !isController(*controller, name) {
			continue
		}
		owner, known := read[controller.UID]
		if !known {
			owner.named, owner.err = cluster.Named(ctx, namespace, *controller)
			read[controller.UID] = owner
			if owner.err != nil {
				failed = append(failed, owner.err)
			}
		}
		decision := succession.Decide(pod, owner.named)
		if owner.err != nil || decision != succession.Release && !decision.MayChange() {
			continue
		}
		o := orphan{
			Pod: pod.Name, Controller: controller.Kind + "/" + controller.Name, ControllerUID: controller.UID, Decision: decision,
			Message: decision.Describe(*controller), pod: pod,
		}
		if owner.named != nil && owner.named.UID != controller.UID {
			o.Successor = owner.named.UID
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b orphan) int {
		return cmp.Or(cmp.Compare(a.Controller, b.Controller), cmp.Compare(a.Pod, b.Pod))
	})
	return all, errors.Join(failed...)
}

// isController reports whether a reference is the controller with this KIND/NAME or NAME. An empty name matches all.
func isController(controller metav1.OwnerReference, name string) bool {
	kind, rest := cli.SplitTypeName(name)
	lower := strings.ToLower(controller.Kind)
	return name == "" || rest == controller.Name && slices.Contains([]string{"", lower, lower + "s"}, kind)
}

func orphanTable(all []orphan) *plugin.Table {
	t := plugin.NewTable("POD", "CONTROLLER", "RESULT", "REASON")
	for i := range all {
		style := plugin.Warn
		if all[i].Decision == succession.Release {
			style = plugin.Good
		}
		t.Add(all[i].Pod, all[i].Controller, style.Of(string(all[i].Decision)), all[i].Message)
	}
	return t
}
