"use strict";
// Unpacks the page's scripts and runs them, in order. Each is allowed by its own hash in the page's policy.
(async () => {
  const bytes = (text) =>
    Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  for (const name of ["library", "program"]) {
    const packed = bytes(document.getElementById(name).textContent);
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(unpacked).text();
    document.head.append(script);
  }
})().catch((error) => {
  document.documentElement.dataset.error = String(error);
  document.body.prepend(`This page could not be unpacked: it needs a browser from 2023 or later (${error}).`);
});
