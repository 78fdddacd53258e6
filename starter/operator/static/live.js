// What pages gain where scripts run. Without them everything works the same, by loading pages.
"use strict";
document.addEventListener("DOMContentLoaded", function () {
  // A link to one review opens its forms' place even after a live update moved it.
  if (location.hash) {
    var at = document.getElementById(location.hash.slice(1));
    if (at) { at.scrollIntoView(); }
  }
  // The slash key goes to the search field, as long as nobody is typing.
  document.addEventListener("keydown", function (e) {
    if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || /^(input|textarea|select)$/i.test(e.target.tagName)) { return; }
    var find = document.getElementById("find");
    if (find) { e.preventDefault(); find.focus(); }
  });
  // A form is sent once: a second click would only come back as the same decision.
  document.addEventListener("submit", function (e) {
    e.target.querySelectorAll("button").forEach(function (b) { setTimeout(function () { b.disabled = true; }, 0); });
  });
  window.addEventListener("pageshow", function () {
    document.querySelectorAll("button[disabled]").forEach(function (b) { b.disabled = false; });
  });
});
// A page in a hidden tab asks for nothing; when the server is away, the next update tries again.
document.addEventListener("htmx:beforeRequest", function (e) {
  if (document.hidden) { e.preventDefault(); }
});
