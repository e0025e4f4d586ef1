package explain

import (
	"bufio"
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
	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain/live"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
)

type forceFlags struct {
	*plugin.Plugin
	cell, reason string
	yes, remove  bool
}

// ForceCommand returns the command force.
func ForceCommand(p *plugin.Plugin) *cobra.Command {
	f := &forceFlags{Plugin: p}
	command := &cobra.Command{
		Use:   "force pod/NAME --reason TEXT [--delete] [--yes]",
		Short: "Allow the removal of a pod in an emergency, whatever its protectors decide (break-glass)",
		Long: `Shows which protectors the removal would override, asks for confirmation, and annotates the pod with ` + v1alpha1.AnnotationForceDelete +
			`=true and with the reason
(` + v1alpha1.AnnotationForceReason + `). The webhook then allows every client to remove the pod. It records the user, the
overridden denials and the reason in the protector's event RemovalForced, in its own log and in the audit log of the cell's API server.

The command also works while no core cluster is reachable; it then cannot show the protectors. It waits for the core at most 5 seconds, or
--request-timeout. It does not annotate a pod whose removal is allowed.`,
		Example:           `  kubectl breakwater force pod/web-0 -n shop --reason "INC-4711: its node is on fire" --delete`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: p.CompletePods,
		RunE: func(command *cobra.Command, arguments []string) error {
			name, err := cli.ParsePodName(arguments)
			if err != nil {
				return err
			}
			return f.run(command.Context(), name)
		},
	}
	flags := command.Flags()
	flags.StringVar(&f.reason, "reason", "", "`reason` of the removal, for the audit log")
	flags.BoolVar(&f.remove, "delete", false, "also delete the pod")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask for confirmation")
	p.BindCell(command, &f.cell)
	return command
}

func (f *forceFlags) run(ctx context.Context, name string) error {
	reason := removal.DisplayReason(f.reason)
	if reason == "" {
		return errors.New("--reason is required: the audit log records it")
	}
	namespace, err := f.Clusters.Namespace()
	if err != nil {
		return err
	}
	reading, cancel := context.WithTimeout(ctx, f.Clusters.Limit())
	defer cancel()
	at, err := f.FindCellOrHere(reading, f.cell)
	if err != nil {
		return err
	}
	pod, err := at.Client.CoreV1().Pods(namespace).Get(reading, name, metav1.GetOptions{})
	if err != nil {
		return plugin.WithRemedy(at.Config, fmt.Errorf("read the pod: %w", err))
	}
	overrides, err := f.preview(reading, at, pod)
	if err != nil || !overrides && !f.remove {
		return err
	}
	if err := f.confirm(pod); err != nil {
		return err
	}
	if overrides {
		if err := annotate(ctx, at.Cluster, pod, reason); err != nil {
			return plugin.WithRemedy(at.Config, fmt.Errorf("annotate the pod: %w", err))
		}
		_, _ = fmt.Fprintf(f.Out, "pod/%s is annotated: %q\n", name, reason)
	}
	if !f.remove {
		where := " -n " + namespace + f.Clusters.KubectlFlags(at.Cell)
		if at.Source == plugin.FromSecret {
			_, err = fmt.Fprintf(f.Out, "In the cluster of cell %s:\n", at.Cell)
		}
		_, writeErr := fmt.Fprintf(f.Out, "Remove it with: kubectl delete pod %s%s\nUndo with: kubectl annotate pod %s%s %s- %s-\n",
			name, where, name, where, v1alpha1.AnnotationForceDelete, v1alpha1.AnnotationForceReason)
		return errors.Join(err, writeErr)
	}
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	if err := at.Client.CoreV1().Pods(namespace).Delete(ctx, name, options); err != nil {
		return plugin.WithRemedy(at.Config, fmt.Errorf("delete the pod: %w", err))
	}
	_, err = fmt.Fprintf(f.Out, "pod/%s is deleted\n", name)
	return err
}

// preview prints which protectors the removal would override. overrides is false if none deny it.
func (f *forceFlags) preview(ctx context.Context, at plugin.CellAccess, pod *corev1.Pod) (overrides bool, err error) {
	if at.Cell == "" { // and so are its webhooks
		_, err := at.Cores()
		f.Note("cannot determine which protectors the removal would override: %v", err)
		return true, nil
	}
	situation, notes, err := readPod(ctx, f.Plugin, at, pod.Namespace, pod.Name, v1alpha1.OperationDelete)
	if err != nil {
		f.Note("cannot determine which protectors the removal would override: %v", err)
		return true, nil
	}
	withoutForce := pod.DeepCopy()
	delete(withoutForce.Annotations, v1alpha1.AnnotationForceDelete)
	situation.Request.Pod = removal.NewPod(withoutForce)
	e := explain.Pod(situation)
	e.Notes, e.Remedies = append(notes, e.Notes...), nil
	if _, err := io.WriteString(f.Out, plugin.FitTerminal(explanationText(printable.Value(e), false)+"\n", plugin.WidthOf(f.Out))); err != nil {
		return false, err
	}
	if e.IsUnknown() {
		f.Note("cannot determine which protectors the removal would override: %v", situation.CoresErr)
		return true, nil
	}
	if e.IsAdmitted() {
		_, err = fmt.Fprintln(f.Out, "The removal is allowed: break-glass is not needed.")
	}
	return !e.IsAdmitted(), err
}

// confirm asks the user on a terminal.
func (f *forceFlags) confirm(pod *corev1.Pod) error {
	if f.yes {
		return nil
	}
	if file, ok := f.In.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
		return errors.New("the input is not a terminal, so confirmation is impossible: nothing was changed; set --yes")
	}
	_, _ = fmt.Fprintf(f.Out, "Type the name of the pod to continue: ")
	answer, err := bufio.NewReader(f.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(answer) != pod.Name {
		return errors.New("nothing was changed: the input is not the name of the pod")
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
