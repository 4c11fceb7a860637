"""What a test asks of a page that is laid out, in the page's own language."""

UNDER_TINTS = """() => {
  // The characters whose middle lies within a tint, in the order of the text.
  const tints = [...document.querySelectorAll('.tint')].map(one => one.getBoundingClientRect());
  const walker = document.createTreeWalker(document.querySelector('#reading'), NodeFilter.SHOW_TEXT,
    node => node.parentElement.closest('.marks') ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);
  let found = '';
  const range = document.createRange();
  while (walker.nextNode()) {
    let at = 0;
    for (const character of walker.currentNode.data) {
      range.setStart(walker.currentNode, at);
      range.setEnd(walker.currentNode, at += character.length);
      const {left, right, top, bottom} = range.getBoundingClientRect();
      const [x, y] = [(left + right) / 2, (top + bottom) / 2];
      if (tints.some(one => one.left <= x && x <= one.right && one.top <= y && y <= one.bottom)) found += character;
    }
  }
  return found;
}"""
"""The text that is brought out."""

OVERLAPS = """() => {
  const labels = [...document.querySelectorAll('.caption')].map(one => one.getBoundingClientRect());
  const words = [...document.querySelectorAll('.reading .word')].flatMap(one => [...one.getClientRects()]);
  const over = (a, b) =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3;
  const others = at => [...labels.slice(at + 1), ...words];
  return labels.filter((one, at) => others(at).some(other => over(one, other))).length;
}"""
"""How many labels lie over other labels, or over words."""

NAMELESS = """() => {
  const named = one => (one.getAttribute('aria-label') || one.labels?.[0]?.textContent || one.textContent || one.alt
    || document.getElementById(one.getAttribute('aria-labelledby'))?.textContent || '').trim();
  const controls = ['button', 'input', 'select', 'textarea', 'a[href]', 'progress', 'fieldset', 'dialog', 'section',
    '[role=treeitem]', '[role=group]', '[role=tree]', '[tabindex]'];
  const all = [...document.querySelectorAll(controls)];
  return all.filter(one => !named(one)).map(one => one.outerHTML.slice(0, 80));
}"""
"""What a screen reader would have no name for."""

LOW_CONTRAST = """() => {
  const parse = text => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const linear = value => value <= .03928 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4;
  const light = text => {
    const [red, green, blue] = parse(text).map(value => linear(value / 255));
    return .2126 * red + .7152 * green + .0722 * blue;
  };
  const paper = one => {
    for (; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if ((parse(colour)[3] ?? 1) > 0) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const bad = [];
  for (const one of document.querySelectorAll('main *, header *, footer *')) {
    if (one.closest('svg, .unseen, noscript, :disabled, option') || !one.checkVisibility()) continue;
    if (![...one.childNodes].some(node => node.nodeType === 3 && node.data.trim())) continue;
    const [ink, ground] = [light(getComputedStyle(one).color), light(paper(one))];
    const contrast = (Math.max(ink, ground) + .05) / (Math.min(ink, ground) + .05);
    if (contrast < 4.5) bad.push(`${contrast.toFixed(1)} ${one.outerHTML.slice(0, 80)}`);
  }
  return bad;
}"""
"""Text with less than the contrast that WCAG 2.2 asks for (AA, 4.5)."""
