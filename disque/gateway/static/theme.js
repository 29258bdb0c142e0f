// Before the page is drawn: the colours that were chosen here before, if any.
const chosen = localStorage.getItem("theme");
if (chosen) document.documentElement.dataset.theme = chosen;
