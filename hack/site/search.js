// Search without a server, and buttons that copy commands. Without this script all pages are readable all the same.
(() => {
	const root = document.currentScript.dataset.root;
	const form = document.querySelector("form"), query = document.getElementById("query");
	const results = document.getElementById("results"), found = document.getElementById("found");
	form.hidden = false;

	// The menu is open where there is room for it.
	const menu = document.querySelector(".menu"), narrow = matchMedia("(max-width: 54rem)");
	const fit = () => { menu.open = !narrow.matches; };
	narrow.addEventListener("change", fit);
	fit();

	let entries;
	const load = () => {
		if (entries) return;
		entries = [];
		const script = document.createElement("script");
		script.src = root + "index.js";
		script.onload = () => { entries = window.breakwaterIndex; show(); };
		document.head.append(script);
	};

	// What has all words; words in titles count more, and most those of the page that is named so.
	const rank = words => entries.map(e => {
		const title = e.Title.toLowerCase(), page = e.Page.toLowerCase(), text = e.Text.toLowerCase();
		let score = 0;
		for (const w of words) {
			const here = (title.includes(w) ? 10 : 0) + (page.includes(w) ? 4 : 0) + (text.includes(w) ? 1 + Math.min(3, text.split(w).length / 4) : 0);
			if (!here) return null;
			score += here;
		}
		return { e, score: score - (e.URL.startsWith("terraform-provider/") ? 3 : 0) };
	}).filter(Boolean).sort((a, b) => b.score - a.score).slice(0, 12);

	const excerpt = (text, word) => {
		const at = Math.max(0, text.toLowerCase().indexOf(word) - 40);
		return (at ? "…" : "") + text.slice(at, at + 140);
	};

	let chosen = -1;
	const choose = i => {
		chosen = i;
		[...results.children].forEach((li, n) => li.setAttribute("aria-selected", n === i));
		if (i >= 0) {
			results.children[i].scrollIntoView({ block: "nearest" });
			query.setAttribute("aria-activedescendant", results.children[i].id);
		} else query.removeAttribute("aria-activedescendant");
	};
	const close = () => { results.hidden = true; query.setAttribute("aria-expanded", "false"); choose(-1); };

	const show = () => {
		const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
		if (!words.length) { found.textContent = ""; results.replaceChildren(); return close(); }
		const hits = rank(words);
		results.replaceChildren(...hits.map(({ e }, i) => {
			const li = document.createElement("li"), a = document.createElement("a"), small = document.createElement("small");
			li.id = "result" + i;
			li.setAttribute("role", "option");
			a.href = root + e.URL;
			a.tabIndex = -1;
			a.textContent = e.Title === e.Page ? e.Page : e.Page + " › " + e.Title;
			small.textContent = excerpt(e.Text, words[0]);
			a.append(small);
			li.append(a);
			return li;
		}));
		if (!hits.length) {
			const li = document.createElement("li");
			li.textContent = "Nothing has all of these words.";
			li.setAttribute("role", "option");
			results.append(li);
		}
		found.textContent = hits.length + " results";
		results.hidden = false;
		query.setAttribute("aria-expanded", "true");
		choose(hits.length ? 0 : -1);
	};

	query.addEventListener("focus", load);
	query.addEventListener("input", () => { load(); show(); });
	query.addEventListener("keydown", event => {
		const n = results.querySelectorAll("a").length;
		if (event.key === "ArrowDown" && n) { event.preventDefault(); choose((chosen + 1) % n); }
		if (event.key === "ArrowUp" && n) { event.preventDefault(); choose((chosen + n - 1) % n); }
		if (event.key === "Escape") close();
	});
	form.addEventListener("submit", event => {
		event.preventDefault();
		results.children[Math.max(0, chosen)]?.querySelector("a")?.click();
	});
	document.addEventListener("click", event => { if (!form.contains(event.target)) close(); });
	document.addEventListener("keydown", event => {
		if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) { event.preventDefault(); query.focus(); }
	});

	for (const code of document.querySelectorAll(".code")) {
		if (!navigator.clipboard) break;
		const button = document.createElement("button");
		button.type = "button";
		button.textContent = "Copy";
		button.addEventListener("click", async () => {
			const commands = [...code.querySelectorAll("b")].map(b => b.textContent).join("\n");
			await navigator.clipboard.writeText(commands || code.querySelector("code").textContent);
			button.textContent = "Copied";
			setTimeout(() => { button.textContent = "Copy"; }, 2000);
		});
		code.append(button);
	}
})();
