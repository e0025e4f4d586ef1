package status

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
)

// auditLog is the flag --audit-log of a command.
type auditLog struct{ path string }

// bind binds the flag. use completes its help text.
func (a *auditLog) bind(command *cobra.Command, use string) {
	command.Flags().StringVar(&a.path, "audit-log", "", "audit log of a cell's API server, as `file` or - for standard input, "+use)
}

// visitLines reads the lines with annotations of the webhook; only those are decoded. It counts lines that cannot be parsed, such as an
// incomplete last line.
func (a auditLog) visitLines(p *plugin.Plugin, visit func(line []byte) error) error {
	in := p.In
	if a.path != "-" {
		file, err := os.Open(a.path)
		if err != nil {
			return fmt.Errorf("--audit-log: %w", err)
		}
		defer file.Close()
		in = file
	}
	lines, bad, hasEvents := bufio.NewReaderSize(in, 1<<20), 0, false
	for {
		line, err := lines.ReadBytes('\n')
		hasEvents = hasEvents || bytes.Contains(line, []byte(`"audit.k8s.io/`))
		if bytes.Contains(line, []byte("/"+v1alpha1.AuditVerdict+`"`)) && visit(line) != nil {
			bad++
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
	}
	switch {
	case !hasEvents:
		return fmt.Errorf("--audit-log %s: the file contains no event of audit.k8s.io; name the log that kube-apiserver writes with --audit-log-path and "+
			"--audit-log-format=json", a.path)
	case bad > 0:
		p.Note("%s of the audit log could not be read", printable.Count(bad, "line"))
	}
	return nil
}

func (f *denialsFlags) readAudit(of plugin.Scope) (all []denial.Denial, err error) {
	err = f.auditLog.visitLines(f.Plugin, func(line []byte) error {
		d, ok, err := denial.ParseAudit(line)
		if ok && (of.Namespace == "" || d.Namespace == of.Namespace) && (of.Name == "" || d.IsOf(of.Name)) {
			if d.Cell = cmp.Or(d.Cell, f.cell); f.cell == "" || d.Cell == f.cell {
				all = append(all, d)
			}
		}
		return err
	})
	return all, err
}

// requesters returns the users who requested admitted removals, by namespace/name of the pod.
func (f *statusFlags) requesters() (map[string]string, error) {
	users := map[string]string{}
	err := f.auditLog.visitLines(f.Plugin, func(line []byte) error {
		request, ok, err := denial.ParseAdmitted(line)
		if ok {
			users[request.Namespace+"/"+request.Pod] = request.User
		}
		return err
	})
	return users, err
}
