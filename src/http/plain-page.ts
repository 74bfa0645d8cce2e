/** The pages of a title and a sentence, for browsers during a login. */
export const PAGE_TYPE = 'text/html; charset=utf-8';

const HEADERS = ['Cache-Control', 'no-store'];

export const PAGE_HEADERS = [
  ...HEADERS,
  ...['Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'; form-action 'none'"],
  ...['Referrer-Policy', 'no-referrer'],
];

/** The form may redirect to another site, and its request carries the origin of the page. */
export const FORM_PAGE_HEADERS = [
  ...HEADERS,
  ...['Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'"],
  ...['Referrer-Policy', 'same-origin'],
];

export function plainPage(title: string, text: string, form = ''): string {
  const head = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">`;
  return `${head}<title>${escaped(title)} · Trunkline</title><h1>${escaped(title)}</h1><p>${escaped(text)}</p>${form}</html>`;
}

/** As `plainPage`, with a form that is posted to its own address; `secret`: the label of its field, null for none. */
export function formPage(title: string, text: string, secret: string | null): string {
  const input = '<input type="password" name="key" autocomplete="off" autofocus>';
  const field = secret === null ? '' : `<p><label>${escaped(secret)} ${input}</label></p>`;
  return plainPage(title, text, `<form method="post">${field}<p><button>Continue</button></p></form>`);
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
