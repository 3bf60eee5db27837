// The theme's buttons that open a section of the sidebar have no text for screen readers.
document.addEventListener("DOMContentLoaded", () => {
  for (const summary of document.querySelectorAll(".bd-sidebar-primary details > summary")) {
    const link = summary.closest("li")?.querySelector(":scope > a");
    summary.setAttribute("aria-label", `Pages below ${link ? link.textContent.trim() : "this one"}`);
  }
});
