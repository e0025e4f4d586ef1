package doctor

import "slices"

// Judge returns the findings of each core, then of each cell, then of the comparisons between them.
func Judge(r *Reading) []Finding {
	var all []Finding
	for i := range r.Cores {
		core := &r.Cores[i]
		if err := core.Clock.Err; err != nil {
			all = append(all, finder{core.where(), "apiserver"}.bad(Problem, "It does not answer: "+sentence(err),
				"Check the address, the network, and that the apiserver runs.", "core-down"))
			continue
		}
		all = append(all, definitions(core, r.Definitions)...)
		all = append(all, cells(core, r.Now)...)
		all = append(all, protectors(core, r.Now)...)
		all = append(all, vanished(core)...)
		all = append(all, held(core, r.Now)...)
		all = append(all, rights(core.where(), core.Rights)...)
		all = append(all, pods(core.where(), core.Pods)...)
		all = append(all, targets(core)...)
		all = append(all, rings(core, r.Now)...)
		for j := range core.Hooks {
			all = append(all, certificate(core.where(), &core.Hooks[j], r.Now)...)
		}
	}
	for i := range r.Cells {
		found := ofCell(&r.Cells[i], r)
		for j := range found {
			if r.Cells[i].Lent && found[j].Verdict == Unknown {
				found[j].Do = "The kubeconfig of the Cell's Secret may not: be there as yourself, by --cell-context " + r.Cells[i].Name + "=CONTEXT."
			}
		}
		all = append(all, found...)
	}
	return append(append(all, clocks(r)...), versions(r)...)
}

func ofCell(c *Cell, r *Reading) []Finding {
	f := finder{c.where(), "apiserver"}
	switch {
	case c.Way != nil:
		return []Finding{f.bad(Unknown, "Nothing of its cluster could be looked at: "+sentence(c.Way),
			"Give --cell-context "+c.Name+"=CONTEXT, or look at other cells alone by --cell.", "")}
	case c.Clock.Err != nil:
		return []Finding{f.bad(Unknown, "It does not answer: "+sentence(c.Clock.Err), "Check the address, the network, and that the apiserver runs.", "")}
	}
	all := append(guarding(c), asked(c)...)
	for _, hook := range append(slices.Clone(c.Hooks), c.Scheduling...) {
		all = append(all, certificate(c.where(), &hook, r.Now)...)
	}
	all = append(append(all, strange(c)...), scheduling(c, r.Cores)...)
	all = append(all, exempt(c, r.Cores)...)
	all = append(all, rights(c.where(), c.Rights)...)
	return append(all, pods(c.where(), c.Pods)...)
}
