/** Has the browser keep a text as a file. */
export function download(file: string, text: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: 'application/octet-stream' }));
  link.download = file;
  link.click();
  URL.revokeObjectURL(link.href);
}
