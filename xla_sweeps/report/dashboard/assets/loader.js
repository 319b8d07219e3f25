"use strict";
// Unpacks the page's data, and its scripts, which it runs in order. Each is allowed by its own hash in the page's policy.
(async () => {
  const bytes = (text) =>
    Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const unpacked = (name) => {
    const part = document.getElementById(name);
    part.remove();
    return new Response(new Response(bytes(part.textContent)).body.pipeThrough(new DecompressionStream("gzip")));
  };
  globalThis.xlaSweeps = { data: unpacked("data").arrayBuffer() };
  for (const name of ["library", "program"]) {
    const script = document.createElement("script");
    script.textContent = await unpacked(name).text();
    document.head.append(script);
  }
})().catch((error) => {
  document.documentElement.dataset.error = String(error);
  document.body.prepend(`This page could not be unpacked: it needs a browser from 2023 or later (${error}).`);
});
