/** A page of a title and a sentence, for browsers that come back from a login. */
export const PAGE_TYPE = 'text/html; charset=utf-8';

export const PAGE_HEADERS = [
  ...['Cache-Control', 'no-store'],
  ...['Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'; form-action 'none'"],
  ...['Referrer-Policy', 'no-referrer'],
  ...['X-Content-Type-Options', 'nosniff'],
];

export function plainPage(title: string, text: string): string {
  const head = `<!doctype html><html lang="en"><meta charset="utf-8"><title>${escaped(title)} · Trunkline</title>`;
  return `${head}<h1>${escaped(title)}</h1><p>${escaped(text)}</p></html>`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
