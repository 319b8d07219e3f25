"use strict";
// Unpacks the page's scripts and runs them, in order. Each is allowed by its own hash in the page's policy.
(async () => {
  for (const name of ["library", "program"]) {
    const packed = Uint8Array.from(atob(document.getElementById(name).textContent), (letter) => letter.charCodeAt(0));
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(unpacked).text();
    document.head.append(script);
  }
})().catch((error) => {
  document.documentElement.dataset.error = String(error);
  document.body.prepend(`This page could not be unpacked: it needs a browser from 2023 or later (${error}).`);
});
