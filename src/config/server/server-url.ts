export type CheckedUrl = { readonly url: string } | { readonly complaint: string; readonly fix: string };

/** A server's address as WHATWG writes it, or why it cannot be one. The complaint never repeats the address. */
export function checkServerUrl(text: string): CheckedUrl {
  const fix = 'write http://host/path or https://host/path';
  if (/[\s\u0000-\u001f\u007f]/.test(text)) return { complaint: 'holds blanks or control characters', fix };
  const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):/.exec(text)?.[1];
  if (scheme === undefined || !URL.canParse(text)) {
    const lacking = URL.canParse(`http://${text}`);
    if (scheme === undefined && lacking)
      return { complaint: 'lacks its scheme', fix: 'write http:// or https:// before it' };
    if (/^https?:/i.test(text) || scheme === undefined) return { complaint: 'is not a URL', fix };
  }
  // `localhost:8080/mcp` parses as a URL of the scheme `localhost`.
  if (!/^https?$/i.test(scheme ?? '')) {
    const port = /^[\w.-]+:\d+(?:\/|$)/.test(text);
    if (port) return { complaint: 'lacks its scheme', fix: 'write http:// or https:// before it' };
    return { complaint: `has the scheme ${JSON.stringify(scheme)}; only http and https are possible`, fix };
  }
  if (!/^https?:\/\//i.test(text)) return { complaint: 'lacks the // after its scheme', fix };
  // WHATWG skips further slashes and would take the path's first part for the host.
  if (/^https?:\/\/[/\\]/i.test(text)) return { complaint: 'lacks its host', fix };
  const url = new URL(text);
  if (url.username !== '' || url.password !== '') {
    const instead = 'send them as a header: "headers": { "Authorization": "Basic ${…}" }';
    return { complaint: 'holds a user name or password', fix: instead };
  }
  if (url.port === '0') return { complaint: 'has port 0', fix: 'name the port the server listens on' };
  if (url.hash !== '') return { complaint: 'has a fragment (#…), which is never sent', fix: 'remove it' };
  return { url: url.href };
}
