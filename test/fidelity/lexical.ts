/**
 * The tokens of a JSON text, without the white space between them, and with the value of the top-level `id` (and of progress
 * tokens, which a gateway maps) replaced by a mark. A message whose tokens are the same was relayed without damage.
 */
export function tokens(json: string, mapped: readonly string[] = ['id']): string[] {
  const found = json.match(/"(?:[^"\\]|\\[\s\S])*"|-?\d[\d.eE+-]*|true|false|null|[{}[\],:]/g) ?? [];
  let depth = 0;
  return found.map((token, i) => {
    if (token === '{' || token === '[') depth++;
    if (token === '}' || token === ']') depth--;
    const key = found[i - 1] === ':' ? found[i - 2]!.slice(1, -1) : null;
    if (key === null || !mapped.includes(key)) return token;
    return key === 'id' && depth !== 1 ? token : `<${key}>`;
  });
}
