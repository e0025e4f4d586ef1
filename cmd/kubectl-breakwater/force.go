package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain/live"
)

type forceFlags struct {
	*plugin
	cell, reason string
	yes, remove  bool
}

func forceCommand(p *plugin) *cobra.Command {
	f := &forceFlags{plugin: p}
	command := &cobra.Command{
		Use:   "force pod/NAME --reason TEXT [--delete] [--yes]",
		Short: "Break the glass for a pod, so that it may be removed whatever its protectors say",
		Long: `Shows what would be broken, asks, and annotates the pod with ` + v1alpha1.AnnotationForceDelete + `=true and with the reason
(` + v1alpha1.AnnotationForceReason + `). Whoever then removes the pod is let through. Who that was, what it was forced over and the
reason stand in the protector's event RemovalForced, in the log of the webhook and in the audit log of the cell's apiserver.

It works also while no core cluster answers; what would be broken is not known then. Nothing is annotated if the pod may go anyway.`,
		Example:           `  kubectl breakwater force pod/web-0 -n shop --reason "INC-4711: its node is on fire" --delete`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: p.completePods,
		RunE: func(command *cobra.Command, arguments []string) error {
			name, err := podNamed(arguments)
			if err != nil {
				return err
			}
			return f.run(command.Context(), name)
		},
	}
	flags := command.Flags()
	flags.StringVar(&f.reason, "reason", "", "`why`, for those who ask later")
	flags.BoolVar(&f.remove, "delete", false, "delete the pod, too")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	p.bindCell(command, &f.cell)
	return command
}

func (f *forceFlags) run(ctx context.Context, name string) error {
	reason := removal.Tellable(f.reason)
	if reason == "" {
		return errors.New("--reason is required: who reads the audit log will want to know")
	}
	namespace, err := f.clusters.Namespace()
	if err != nil {
		return err
	}
	at, err := f.placeAnyway(ctx, f.cell)
	if err != nil {
		return err
	}
	pod, err := at.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return failure(at.config, fmt.Errorf("read the pod from cell %q: %w", at.Cell, err))
	}
	broken, err := f.show(ctx, at, pod)
	if err != nil || !broken && !f.remove {
		return err
	}
	if err := f.confirm(pod); err != nil {
		return err
	}
	if broken {
		if err := annotate(ctx, at.Cluster, pod, reason); err != nil {
			return failure(at.config, fmt.Errorf("annotate the pod: %w", err))
		}
		_, _ = fmt.Fprintf(f.Out, "pod/%s is annotated: %q\n", name, reason)
	}
	if !f.remove {
		_, err = fmt.Fprintf(f.Out, "Remove it with: kubectl delete pod %s -n %s\nTake it back with: kubectl annotate pod %s -n %s %s- %s-\n",
			name, namespace, name, namespace, v1alpha1.AnnotationForceDelete, v1alpha1.AnnotationForceReason)
		return err
	}
	how := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	if err := at.Client.CoreV1().Pods(namespace).Delete(ctx, name, how); err != nil {
		return failure(at.config, fmt.Errorf("delete the pod: %w", err))
	}
	_, err = fmt.Fprintf(f.Out, "pod/%s is deleted\n", name)
	return err
}

// placeAnyway is like place, but works without cores if they are unreachable.
func (p *plugin) placeAnyway(ctx context.Context, cell string) (place, error) {
	at, err := p.place(ctx, cell)
	if err == nil {
		return at, nil
	}
	config, here := p.clusters.Here()
	if here != nil {
		return place{}, here
	}
	p.note("what would be broken is not known: %v", err)
	if found, err := p.clusters.CellHere(ctx); cell == "" && err == nil {
		cell = found.Cell
	}
	at = place{config: config}
	at.Cluster, err = live.NewCluster(cmp.Or(cell, "here"), config)
	return at, err
}

// show prints which protectors the removal would override. broken is false if none deny it.
func (f *forceFlags) show(ctx context.Context, at place, pod *corev1.Pod) (broken bool, err error) {
	if len(at.cores) == 0 {
		return true, nil
	}
	situation, notes, err := live.Pod(ctx, at.cores, at.Cluster, pod.Namespace, pod.Name, v1alpha1.OperationDelete)
	if err != nil {
		f.note("what would be broken is not known: %v", err)
		return true, nil
	}
	unforced := pod.DeepCopy()
	delete(unforced.Annotations, v1alpha1.AnnotationForceDelete)
	situation.Request.Pod = unforced
	e := explain.Pod(situation)
	e.Notes, e.Remedies = append(notes, e.Notes...), nil
	if _, err := io.WriteString(f.Out, explained(printable.Value(e), false, f.coloured(f.Out))+"\n"); err != nil {
		return false, err
	}
	if e.Goes() {
		_, err = fmt.Fprintln(f.Out, "It may go as it is: there is no glass to break.")
	}
	return !e.Goes(), err
}

// confirm asks the user on a terminal.
func (f *forceFlags) confirm(pod *corev1.Pod) error {
	if f.yes {
		return nil
	}
	if file, ok := f.In.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
		return errors.New("nothing is done without --yes where nobody can be asked")
	}
	_, _ = fmt.Fprintf(f.Out, "Type the name of the pod to go on: ")
	answer, err := bufio.NewReader(f.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(answer) != pod.Name {
		return errors.New("nothing is done")
	}
	return nil
}

// annotate sets the break-glass annotation on exactly this pod. A new pod with the same name is not annotated.
func annotate(ctx context.Context, at *live.Cluster, pod *corev1.Pod, reason string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         pod.UID,
		"annotations": map[string]string{v1alpha1.AnnotationForceDelete: "true", v1alpha1.AnnotationForceReason: reason},
	}})
	if err != nil {
		return err
	}
	_, err = at.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
