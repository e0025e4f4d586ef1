package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"
)

// Result is the outcome of a scenario.
type Result struct {
	Name string `json:"name"`
	Seed uint64 `json:"seed"`
	// Attempted counts the requests of this program; controllers make more. Admitted counts the admissions of removals of available pods
	// by any client. Legal counts those that the model explains.
	Attempted int `json:"attempted"`
	Admitted  int `json:"admitted"`
	Legal     int `json:"legal"`
	// OverAdmissions are removals that left fewer available pods than the floor.
	OverAdmissions int `json:"overAdmissions"`
	MinAvailable   int `json:"minAvailable"`
	Floor          int `json:"floor"`
	// RecoverySeconds is the time from the end of the fault until a removal was admitted and the status was true. The status is checked
	// when the storm is over, some seconds after the fault. Less than 0 means never.
	RecoverySeconds float64 `json:"recoverySeconds"`
	// Dropped counts pods that stopped being available by themselves.
	Dropped int `json:"dropped"`
	// CoreOutage is nil unless cells had to continue without the core.
	CoreOutage *OutageResult `json:"coreOutage,omitempty"`
	// Unreviewed counts the requests of this program that were refused because no webhook could be called.
	Unreviewed int `json:"unreviewed"`
	// Trace is the name of the file with the evidence.
	Trace string `json:"trace,omitempty"`
	// Illegal and Error describe the failures.
	Illegal []string `json:"illegal,omitempty"`
	Error   string   `json:"error,omitempty"`

	removals []time.Duration // how long the answers of admitted requests took
}

func (r *Result) setJudgement(j Judgement) {
	r.Admitted, r.Legal, r.Illegal = j.Admitted, j.Legal, j.Illegal
	r.OverAdmissions, r.MinAvailable, r.Dropped, r.Unreviewed = j.OverAdmissions, j.MinAvailable, j.Dropped, j.Unreviewed
}

// recovery returns RecoverySeconds as text.
func (r *Result) recovery() string {
	if r.RecoverySeconds < 0 {
		return "never"
	}
	return fmt.Sprintf("%.1f s", r.RecoverySeconds)
}

// Err returns how Breakwater broke its promise; nil if it did not.
func (r *Result) Err() error {
	var all []error
	if r.Error != "" {
		all = append(all, errors.New(r.Error))
	}
	if r.OverAdmissions > 0 {
		all = append(all, fmt.Errorf("%d over-admissions: %d pods were available, the floor is %d", r.OverAdmissions, r.MinAvailable, r.Floor))
	}
	for _, illegal := range r.Illegal {
		all = append(all, errors.New(illegal))
	}
	if r.RecoverySeconds < 0 {
		all = append(all, errors.New("no recovery"))
	}
	if r.Admitted == 0 {
		all = append(all, errors.New("no removal was admitted, so the run proves nothing"))
	}
	if err := errors.Join(all...); err != nil {
		return fmt.Errorf("%s (seed %d): %w", r.Name, r.Seed, err)
	}
	return nil
}

// Report has the results of a run.
type Report struct {
	Scenarios []Result `json:"scenarios"`
	// Soak is nil without a soak. SoakGrowthPercent is its greatest growth of memory.
	Soak              *Growth  `json:"soak,omitempty"`
	SoakGrowthPercent *float64 `json:"soak_growth_pct,omitempty"`
	// CoreOutages is nil unless cells had to continue without the core.
	*CoreOutages
}

// Add adds the result of a scenario.
func (r *Report) Add(result Result) {
	r.Scenarios = append(r.Scenarios, result)
	if result.CoreOutage == nil {
		return
	}
	if r.CoreOutages == nil {
		r.CoreOutages = &CoreOutages{}
	}
	r.addOutage(result)
}

// SetGrowth sets what grew in the soak.
func (r *Report) SetGrowth(g *Growth) {
	r.Soak = g
	if percent, ok := g.Worst()["memory"]; ok {
		r.SoakGrowthPercent = &percent
	}
}

// Err joins the errors of all results.
func (r *Report) Err() error {
	var all []error
	for i := range r.Scenarios {
		all = append(all, r.Scenarios[i].Err())
	}
	if r.Soak != nil {
		all = append(all, r.Soak.Err())
	}
	return errors.Join(all...)
}

// Write writes report.json into a folder.
func (r *Report) Write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("create the directory of the report: %w", err)
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "report.json"), append(raw, '\n'), 0o600)
}

// Table writes the results as a table.
func (r *Report) Table(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight|tabwriter.StripEscape)
	_, _ = fmt.Fprintln(table, "attempted\tadmitted\tlegal\tover-admissions\tfewest\tfloor\trecovery\tseed\t  scenario")
	for _, s := range r.Scenarios {
		_, _ = fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t%d\t%s\t%d\t  %s\n", s.Attempted, s.Admitted, s.Legal, s.OverAdmissions,
			s.MinAvailable, s.Floor, s.recovery(), s.Seed, s.Name)
	}
	if err := table.Flush(); err != nil || r.Soak == nil {
		return err
	}
	_, _ = fmt.Fprintln(out)
	return r.Soak.Table(out)
}

// CoreOutages sums up all scenarios in which cells had to continue without the core. Times are the longest.
type CoreOutages struct {
	OverAdmissions             int      `json:"core_outage_over_admissions"`
	RolloutCompletes           *int     `json:"core_outage_rollout_completes,omitempty"` // 1 or 0
	FirstLocalAdmissionSeconds *float64 `json:"first_local_admission_s,omitempty"`
	RejoinSeconds              *float64 `json:"rejoin_s,omitempty"`
}

func (o *CoreOutages) addOutage(result Result) {
	one := result.CoreOutage
	o.OverAdmissions += result.OverAdmissions
	o.FirstLocalAdmissionSeconds = longest(o.FirstLocalAdmissionSeconds, one.FirstLocalAdmissionSeconds)
	o.RejoinSeconds = longest(o.RejoinSeconds, one.RejoinSeconds)
	if one.RolloutCompletes == nil {
		return
	}
	complete := 0
	if *one.RolloutCompletes && (o.RolloutCompletes == nil || *o.RolloutCompletes == 1) {
		complete = 1
	}
	o.RolloutCompletes = &complete
}

// longest returns the longer of two times, of which nil is unknown.
func longest(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}
