package commands

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// preview prints what would be confirmed, and how many pods stay available until then.
func (p *pendingDecreases) preview(out io.Writer, found []pendingDecrease) error {
	rows, kept := [][]string{{"NAMESPACE", "NAME", "FLOOR", "AVAILABLE", "REASON", "SINCE", "ASKED FOR"}}, 0
	for i := range found {
		d := &found[i]
		budget := quota.BudgetOf(d.PodProtector)
		kept += min(budget.Floor, budget.Available)
		floor := strconv.Itoa(budget.Floor)
		if budget.FloorUnknown {
			floor = "?"
		}
		since := duration.HumanDuration(max(0, p.now().Sub(d.Since)))
		rows = append(rows, []string{d.Namespace, d.Name, floor, strconv.Itoa(budget.Available), d.Reason, since, d.Summary()})
	}
	if err := writeTable(out, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "Pending decreases: %d. Until they take effect, the floors keep %s from removal.\n", len(found),
		printable.Count(kept, "available pod"))
	return err
}

// isConfirmed asks the user at a terminal, unless --yes or --dry-run answers. Without a terminal it returns false unless --yes is set.
func (f *releaseFlags) isConfirmed(in io.Reader, out io.Writer, decreases int) (bool, error) {
	if f.yes {
		return true, nil
	}
	if f.dryRun {
		_, err := fmt.Fprintln(out, "Nothing was changed.")
		return false, err
	}
	if file, ok := in.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
		_, err := fmt.Fprintln(out, "Nothing was changed. Add --yes to confirm.")
		return false, err
	}
	if _, err := fmt.Fprintf(out, "Type yes to confirm %s: ", printable.Count(decreases, "decrease")); err != nil {
		return false, err
	}
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	if strings.TrimSpace(answer) != "yes" {
		return false, errors.New("nothing was changed: the answer was not yes")
	}
	return true, nil
}

// annotate confirms the decrease of exactly this object at exactly this resource version.
func (p *pendingDecreases) annotate(ctx context.Context, protector *v1alpha1.PodProtector, until time.Time) (result string, err error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": protector.UID, "resourceVersion": protector.ResourceVersion,
		"annotations": map[string]string{v1alpha1.AnnotationConfirmRelease: until.Format(time.RFC3339)},
	}})
	if err != nil {
		return "", err
	}
	err = p.client.Patch(ctx, protector.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	return resultConfirmed, err
}
