// Package explain contains the commands about the removal of one pod: explain, and force.
package explain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain/live"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
)

type explainFlags struct {
	*plugin.Plugin
	plugin.Output
	operation string
	cell      string
	ask       bool
}

// Command returns the command explain.
func Command(p *plugin.Plugin) *cobra.Command {
	f := &explainFlags{Plugin: p}
	command := &cobra.Command{
		Use:   "explain pod/NAME [--operation delete|evict|update|resize|relabel] [--cell NAME] [--ask]",
		Short: "Explain why a removal of a pod is denied or allowed, and what would have to change",
		Long: `Explains how the webhook would respond now if the pod were deleted, evicted, updated, resized or relabeled, with the exact message: which webhooks
the API server calls, whether the pod counts, the arithmetic of each protector, and the remedies.

The command reads the pod from the cluster of its cell, and protectors and Cells from the core. It decides with the code of the webhook. It does not
know the state that only webhook replicas have: protectors that were lost without a release, and cores that the replicas cannot reach. With --ask
the command also sends a dry run to the API server, which changes nothing, and reports whether both answers agree.

The command assumes that an update or resize restarts the pod's first container. With --ask, an update sets another image, which requires permission
to patch pods; a resize halves a resource whose change restarts the container. The command assumes that a relabel takes the pod out of the coverage
of all protectors; with --ask it removes all labels of the pod.

The command reads all clusters concurrently and waits for them at most 5 seconds in total, or --request-timeout. If the core does not answer, it shows
what the cell's cluster knows. Some verdicts need no core: those of terminating, finished and unscheduled pods, of break-glass, and of removals for which
the API server calls no webhook. With --ask you need no access to the core: the answer of the API server is the verdict then, and a denial has the counts of
the protector.

The exit code is 0 if the removal is allowed, 2 if it would be denied, 3 if the answer of --ask differs, and 1 if the verdict is unknown.`,
		Example: `  kubectl breakwater explain pod/web-0 -n shop
  kubectl breakwater explain pod/web-0 -n shop --operation evict --ask --context worker-1 --core-context hub`,
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
	f.Output.Bind(command)
	flags := command.Flags()
	flags.StringVar(&f.operation, "operation", "delete", "`operation` on the pod: delete, evict, update, resize or relabel")
	flags.BoolVar(&f.ask, "ask", false, "also send a dry run to the API server")
	p.BindCell(command, &f.cell)
	operations := cobra.FixedCompletions([]string{"delete", "evict", "update", "resize", "relabel"}, cobra.ShellCompDirectiveNoFileComp)
	_ = command.RegisterFlagCompletionFunc("operation", operations)
	return command
}

func parseOperation(text string) (v1alpha1.Operation, error) {
	for _, operation := range []v1alpha1.Operation{
		v1alpha1.OperationDelete, v1alpha1.OperationEvict, v1alpha1.OperationUpdate, v1alpha1.OperationResize, v1alpha1.OperationRelabel,
	} {
		if strings.EqualFold(text, string(operation)) {
			return operation, nil
		}
	}
	return "", fmt.Errorf("--operation %q: want delete, evict, update, resize or relabel", text)
}

func (f *explainFlags) run(ctx context.Context, name string) error {
	operation, err := parseOperation(f.operation)
	if err := errors.Join(err, f.Check()); err != nil {
		return err
	}
	namespace, err := f.Clusters.Namespace()
	if err != nil {
		return err
	}
	at, e, err := f.explainPod(ctx, namespace, name, operation)
	if err != nil {
		return err
	}
	if f.ask {
		if err := live.RecordAnswer(&e, at.DryRun(ctx, namespace, name, operation)); err != nil {
			return plugin.WithRemedy(at.Config, err)
		}
	}
	if err := plugin.Write(&f.Output, f.Out, e, func(e explain.Explanation) string { return explanationText(e, f.Wide()) }); err != nil {
		return err
	}
	return exitErrorOf(e)
}

// exitErrorOf returns the error for the exit code of an explanation; nil if the removal is allowed.
func exitErrorOf(e explain.Explanation) error {
	switch {
	case e.IsUnknown() && e.Answer == nil:
		return fmt.Errorf("the verdict is unknown: %s; %s", e.CoresUnread, askHint)
	case e.IsUnknown() && e.Answer.Allowed:
		return nil
	case e.Answer != nil && !e.Answer.Agrees && !e.IsUnknown():
		return cli.ExitError{Code: 3, Err: errors.New("the API server's answer differs from the explanation")}
	case e.Answer != nil && e.Answer.OfBudget:
		return cli.ExitError{Code: 2, Err: fmt.Errorf("a PodDisruptionBudget refuses to evict pod %s/%s", e.Namespace, e.Pod)}
	case !e.IsAdmitted():
		return cli.ExitError{Code: 2, Err: fmt.Errorf("the removal of pod %s/%s would be denied", e.Namespace, e.Pod)}
	}
	return nil
}

// askHint is the remedy of a user who cannot read a core.
const askHint = "with --ask the API server answers, which needs no access to the core"

// explainPod reads the state that the answer depends on, for at most the limit of the command, and explains the answer.
func (f *explainFlags) explainPod(ctx context.Context, namespace, name string, operation v1alpha1.Operation) (plugin.CellAccess, explain.Explanation, error) {
	reading, cancel := context.WithTimeout(ctx, f.Clusters.Limit())
	defer cancel()
	find := f.FindCell
	if f.ask && f.cell == "" { // the API server of the current context answers a dry run also if its cell is unknown
		find = f.FindCellOrHere
	}
	at, err := find(reading, f.cell)
	switch {
	case err != nil && f.cell == "" && !f.ask:
		return at, explain.Explanation{}, fmt.Errorf("%w; %s", err, askHint)
	case err != nil:
		return at, explain.Explanation{}, err
	}
	situation, notes, err := readPod(reading, f.Plugin, at, namespace, name, operation)
	if err != nil {
		return at, explain.Explanation{}, plugin.WithRemedy(at.Config, err)
	}
	e := explain.Pod(situation)
	e.Notes = append(notes, e.Notes...)
	return at, e, nil
}

// readPod reads the situation of a pod. If it has to wait for a core, it reports that with what it knows.
func readPod(
	ctx context.Context, p *plugin.Plugin, at plugin.CellAccess, namespace, name string, operation v1alpha1.Operation,
) (explain.Situation, []string, error) {
	end, _ := ctx.Deadline()
	reader := live.Reader{Cores: at.Cores, Cluster: at.Cluster, NoticeAfter: p.Clusters.NoticeAfter(), Waiting: func(known explain.Situation) {
		webhooks := webhookLines(explain.Explanation{Cell: at.Cell, Asked: known.Asked(), Hooks: known.Hooks})
		p.Note("waiting for the core cluster, for at most %s; known so far: pod %s/%s exists in cell %s, webhooks: %s",
			time.Until(end).Round(100*time.Millisecond), namespace, name, at.Cell, strings.Join(webhooks, "; "))
	}}
	s, notes, err := reader.Pod(ctx, namespace, name, operation)
	s.CoresErr = plugin.WithRemedy(at.Config, s.CoresErr)
	return s, notes, err
}
