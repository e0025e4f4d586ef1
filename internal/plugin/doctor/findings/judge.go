package findings

import "slices"

const kubeconfigLacks = "The kubeconfig of the Cell's Secret lacks the permission."

// Judge returns the findings of each core, then of each cell, then of the comparisons between them.
func Judge(r *Inspection) []Finding {
	var all []Finding
	for i := range r.Cores {
		core := &r.Cores[i]
		if err := core.Clock.Err; err != nil {
			all = append(all, reporter{core.where(), "apiserver"}.finding(Problem, "It does not answer: "+sentence(err),
				"Check the address, the network, and that the API server runs.", "core-down"))
			continue
		}
		all = append(all, checkDefinitions(core, r.Definitions)...)
		all = append(all, checkCells(core, r.Now)...)
		all = append(all, checkTokens(core)...)
		all = append(all, checkProtectors(core, r.Now)...)
		all = append(all, checkVanished(core)...)
		all = append(all, checkFinalizers(core, r.Now)...)
		all = append(all, checkPermissions(core.where(), core.Permissions)...)
		all = append(all, checkPods(core.where(), core.Pods)...)
		all = append(all, checkTargets(core)...)
		all = append(all, checkRings(core, r.Now)...)
		all = append(all, checkKeys(core.where(), labeledOf(core))...)
		for j := range core.Hooks {
			all = append(all, checkCertificate(core.where(), &core.Hooks[j], r.Now)...)
		}
	}
	for i := range r.Cells {
		found := judgeCell(&r.Cells[i], r)
		for j := range found {
			if r.Cells[i].UsesCellKubeconfig && found[j].Verdict == Unknown {
				found[j].Do = kubeconfigLacks + " Use your own credentials: --cell-context " + r.Cells[i].Name + "=CONTEXT."
			}
		}
		all = append(all, found...)
	}
	return append(append(all, checkClocks(r)...), checkVersions(r)...)
}

func judgeCell(c *Cell, r *Inspection) []Finding {
	f := reporter{c.where(), "apiserver"}
	switch {
	case c.ConnectErr != nil:
		return []Finding{f.finding(Unknown, "Its cluster could not be checked: "+sentence(c.ConnectErr),
			"Set --cell-context "+c.Name+"=CONTEXT, or use --cell to check other cells only.", "")}
	case c.Clock.Err != nil:
		return []Finding{f.finding(Unknown, "It does not answer: "+sentence(c.Clock.Err), "Check the address, the network, and that the API server runs.", "")}
	}
	all := append(checkGuarding(c), checkWebhookAnswer(c)...)
	for _, hook := range append(slices.Clone(c.Hooks), c.Scheduling...) {
		all = append(all, checkCertificate(c.where(), &hook, r.Now)...)
	}
	all = append(append(all, checkBundlesMatch(c)...), checkScheduling(c, r.Cores)...)
	all = append(all, checkExempt(c, r.Cores)...)
	all = append(all, checkIgnoredLabels(c, r.Cores)...)
	all = append(all, checkJobs(c, r.Cores)...)
	all = append(all, checkKeys(c.where(), namespacesOf(c))...)
	all = append(all, checkPermissions(c.where(), c.Permissions)...)
	return append(all, checkPods(c.where(), c.Pods)...)
}
