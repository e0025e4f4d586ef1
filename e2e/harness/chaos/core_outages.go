package chaos

// CoreOutages sums up all scenarios in which cells had to continue without the core. Times are the longest.
type CoreOutages struct {
	OverAdmissions             int      `json:"core_outage_over_admissions"`
	RolloutCompletes           *int     `json:"core_outage_rollout_completes,omitempty"` // 1 or 0
	FirstLocalAdmissionSeconds *float64 `json:"first_local_admission_s,omitempty"`
	RejoinSeconds              *float64 `json:"rejoin_s,omitempty"`
	// These count what was played: see OutageResult.
	CellsDeleted int `json:"core_outage_cells_deleted"`
	StaleCells   int `json:"core_outage_stale_cells"`
	DomainsLost  int `json:"core_outage_domains_lost"`
}

func (o *CoreOutages) addOutage(result Result) {
	one := result.CoreOutage
	o.OverAdmissions += result.OverAdmissions
	o.CellsDeleted, o.StaleCells, o.DomainsLost = o.CellsDeleted+one.CellsDeleted, o.StaleCells+one.StaleCells, o.DomainsLost+one.DomainsLost
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
